/// The content of one event of `waybill.order-changes` about one order.
///
/// The data is not checked against the order: only the fold can decide whether the order is valid with it.
/// Source: Design §3
public struct OrderChange: Hashable, Sendable {
    /// The kind of change to the order.
    public enum Kind: Hashable, Sendable {
        /// The document becomes the order's state. It may still have members that Waybill owns; the fold removes them.
        case replaced(OrderDocument)
        /// A part of the order as its source sees it; `owns` names the paths that this source alone writes, nil leaves
        /// them as they are. See `Contributions`.
        case merged(JSONObject, owns: OwnedPaths?)
        /// A merge patch (RFC 7396) of the order.
        case patched(JSONObject)
        /// A merge patch of the fulfillment with that identifier.
        case fulfillmentUpdated(identifier: String, JSONObject)
        /// A merge patch of the return with that identifier.
        case returnUpdated(identifier: String, JSONObject)
        /// Devices are to be notified again; `touch` makes a new version for that.
        case announced(touch: Bool)
        /// The order was removed.
        case removed
    }

    public let key: OrderKey
    /// Together with `id`, the identity of the change.
    public let source: String
    public let id: String
    /// Digits that order the changes of one source, or nil when the source does not number them.
    public let sequence: String?
    /// The moment of the event, milliseconds since 1970, or nil if the event does not state it.
    public let epochMilliseconds: Int64?
    /// True if devices are not to be notified of it.
    public let isSilent: Bool
    /// The version that a removal is about, which is skipped if the order has another one; nil for any.
    public let ifVersion: Int64?
    /// The trace of the event, or else of its record; nil if neither has one.
    public let trace: TraceContext?
    /// The members of merged data that the source could not say.
    public internal(set) var keeps: KeptMembers
    public internal(set) var kind: Kind

    public init(
        key: OrderKey, source: String, id: String, sequence: String? = nil, epochMilliseconds: Int64? = nil,
        isSilent: Bool = false, ifVersion: Int64? = nil, trace: TraceContext? = nil,
        keeps: KeptMembers = KeptMembers(), kind: Kind
    ) {
        self.key = key
        self.source = source
        self.id = id
        self.sequence = sequence
        self.epochMilliseconds = epochMilliseconds
        self.isSilent = isSilent
        self.ifVersion = ifVersion
        self.trace = trace
        self.keeps = keeps
        self.kind = kind
    }

    /// The data of the event without its `owns`; nil if it has none.
    public var data: JSONObject? {
        switch self.kind {
        case .replaced(let document): return document.members
        case .merged(var data, _):
            if !self.keeps.paths.isEmpty { data["keeps"] = self.keeps.json }
            return data
        case .patched(let data), .fulfillmentUpdated(_, let data), .returnUpdated(_, let data): return data
        case .announced, .removed: return nil
        }
    }

    /// True for an update that makes no order, so that only the order that it meets shows if it is valid.
    public var isPartial: Bool {
        switch self.kind {
        case .patched, .fulfillmentUpdated, .returnUpdated: true
        case .replaced, .merged, .announced, .removed: false
        }
    }

    /// Returns true if the source of both numbered this change below the other one.
    func precedes(_ other: OrderChange) -> Bool {
        guard self.source == other.source else { return false }
        guard let sequence = self.sequence, let later = other.sequence else { return false }
        return isLowerNumber(sequence, than: later)
    }

    /// The longest value that is accepted, in bytes: 1 MiB, which is also Kafka's default for a record. It may have
    /// `JSON.entryLimit` entries.
    public static let valueLimit = 1 << 20
    /// The longest `source`, in bytes: it is stored with the order if the source numbers its changes.
    static let sourceLimit = 512
    /// The longest `id`, in bytes.
    static let idLimit = 1024
    /// The longest `sequence`, in digits.
    static let sequenceLimit = 128
}

extension OrderChange {
    /// Reads one record of `waybill.order-changes`.
    ///
    /// Size, key, envelope and data are checked in this order, and the first fault is reported.
    /// - Parameter headers: the headers as in the record.
    /// - Throws: `ChangeFault`, never with the code of a fold (`unknown-order`, `invalid-order`).
    public static func decode(
        key: [UInt8]?, value: [UInt8]?, headers: [(name: String, value: [UInt8]?)]
    ) throws(ChangeFault) -> OrderChange {
        if let value { try self.limit(value) }
        let key = try self.key(key)
        return try self.init(key, try CloudEvent(value: value, headers: headers), headers)
    }

    /// Reads an event as `decode` would read the record that has it as its value.
    ///
    /// - Parameters:
    ///   - event: the members of the event in structured mode.
    ///   - value: the event's text, which is not read again.
    public static func decode(
        key: [UInt8], event: JSONObject, value: [UInt8], headers: [(name: String, value: [UInt8]?)]
    ) throws(ChangeFault) -> OrderChange {
        try self.limit(value)
        // An entry has two bytes at least, most have many more.
        if value.count / 2 > JSON.entryLimit, JSON.object(event).entryCount > JSON.entryLimit {
            throw ChangeFault(
                code: .valueTooLarge, reason: "the value has more than \(JSON.entryLimit) values in one JSON text")
        }
        let key = try self.key(key)
        return try self.init(key, try CloudEvent(event), headers)
    }

    private static func limit(_ value: [UInt8]) throws(ChangeFault) {
        guard value.count > self.valueLimit else { return }
        throw ChangeFault(
            code: .valueTooLarge,
            reason: "the value has \(value.count) bytes, a change has at most \(self.valueLimit)")
    }

    private init(
        _ key: OrderKey, _ event: CloudEvent, _ headers: [(name: String, value: [UInt8]?)]
    ) throws(ChangeFault) {
        guard event.subject == key.description else {
            throw ChangeFault(
                code: .subjectMismatch,
                reason: "\(event.path("subject")) is \"\(clipped(event.subject))\" but the record's key is "
                    + "\"\(key)\": both must name the same order")
        }
        var kind = try Self.kind(of: event)
        var keeps = KeptMembers()
        if case .merged(var data, let owns) = kind, let sent = data["keeps"] {
            data["keeps"] = nil
            keeps = try KeptMembers(sent, path: "$.data.keeps")
            kind = .merged(data, owns: owns)
        }
        self.init(
            key: key, source: event.source, id: event.id, sequence: event.sequence,
            epochMilliseconds: event.epochMilliseconds, isSilent: event.isSilent, ifVersion: event.ifVersion,
            trace: event.trace ?? TraceContext(headers: headers), keeps: keeps, kind: kind)
    }

    private static func key(_ bytes: [UInt8]?) throws(ChangeFault) -> OrderKey {
        guard let bytes, !bytes.isEmpty else {
            throw ChangeFault(
                code: .invalidKey,
                reason: "the record has no key, it must be <orderTypeIdentifier>/<orderIdentifier>")
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw ChangeFault(code: .invalidUTF8, reason: "the record's key is not UTF-8")
        }
        do {
            return try OrderKey(text)
        } catch {
            throw ChangeFault(code: .invalidKey, reason: "the record's key is wrong: \(error)")
        }
    }

    private static func kind(of event: CloudEvent) throws(ChangeFault) -> Kind {
        switch event.type {
        case .orderReplaced: return .replaced(OrderDocument(members: try self.object(event)))
        case .orderMerged:
            var object = try self.object(event)
            let sent = object["owns"]
            object["owns"] = nil
            guard let sent, sent != .null else { return .merged(object, owns: event.owns) }
            guard event.owns == nil else {
                throw ChangeFault(
                    code: .invalidChange, reason: "$.data.owns and \(event.path("owns")) are both there, send one")
            }
            return .merged(object, owns: try self.owns(sent, path: "$.data.owns"))
        case .orderPatched: return .patched(try self.object(event))
        case .fulfillmentUpdated:
            let object = try self.object(event)
            return .fulfillmentUpdated(identifier: try self.identifier("fulfillmentIdentifier", object), object)
        case .returnUpdated:
            let object = try self.object(event)
            return .returnUpdated(identifier: try self.identifier("returnIdentifier", object), object)
        case .orderAnnounced:
            guard event.data != nil else { return .announced(touch: false) }
            let object = try self.object(event)
            if let other = object.members.first(where: { $0.name != "touch" }) {
                throw ChangeFault(
                    code: .invalidChange,
                    reason: "$.data.\(clipped(other.name)) is unknown, \(event.type.rawValue) has only touch")
            }
            guard let touch = object["touch"], touch != .null else { return .announced(touch: false) }
            guard let touch = touch.bool else {
                throw ChangeFault(
                    code: .invalidChange, reason: "$.data.touch must be true or false, it is \(touch.kind)")
            }
            return .announced(touch: touch)
        case .orderRemoved:
            // Some libraries cannot leave the data out and send an empty object.
            guard event.data == nil || event.data?.object?.isEmpty == true else {
                throw ChangeFault(
                    code: .invalidChange, reason: "$.data must be absent, \(event.type.rawValue) has no data")
            }
            return .removed
        }
    }

    /// - Parameter value: an array of paths, or a text of paths separated by commas.
    static func owns(_ value: JSON, path: String) throws(ChangeFault) -> OwnedPaths {
        let texts: [String]?
        switch value {
        case .string(let text):
            let names = text.split(separator: ",", omittingEmptySubsequences: false)
            texts = text.isEmpty ? [] : names.map { $0.trimmingSpaces() }
        case .array(let elements):
            let strings = elements.compactMap(\.string)
            texts = strings.count == elements.count ? strings : nil
        case .null, .bool, .number, .object: texts = nil
        }
        guard let texts else {
            throw ChangeFault(
                code: .invalidChange,
                reason: "\(path) must be an array of members' names, like [\"payment\", \"fulfillments.status\"]")
        }
        return try OwnedPaths(texts, path: path)
    }

    private static func object(_ event: CloudEvent) throws(ChangeFault) -> JSONObject {
        guard let data = event.data else {
            throw ChangeFault(
                code: .invalidChange, reason: "$.data is missing, \(event.type.rawValue) needs an object there")
        }
        guard case .object(let object) = data else {
            throw ChangeFault(code: .invalidChange, reason: "$.data must be an object, it is \(data.kind)")
        }
        return object
    }

    private static func identifier(_ name: String, _ object: JSONObject) throws(ChangeFault) -> String {
        guard let value = object[name] else {
            throw ChangeFault(code: .invalidChange, reason: "$.data.\(name) is missing, it says what is updated")
        }
        guard case .string(let identifier) = value else {
            throw ChangeFault(code: .invalidChange, reason: "$.data.\(name) must be a string, it is \(value.kind)")
        }
        guard !identifier.isEmpty else {
            throw ChangeFault(code: .invalidChange, reason: "$.data.\(name) must not be empty")
        }
        return identifier
    }
}

extension Substring {
    fileprivate func trimmingSpaces() -> String {
        let text = self.drop { $0 == " " }
        return String(text[..<(text.lastIndex { $0 != " " }.map { text.index(after: $0) } ?? text.startIndex)])
    }
}

/// Returns the beginning of a text that was sent, for messages. Counts scalars, as a character has no length limit.
func clipped(_ text: String, to limit: Int = 60) -> String {
    text.utf8.count <= limit ? text : "\(String(text.unicodeScalars.prefix(limit)))…"
}

extension BinaryInteger {
    /// Returns the number with a noun whose plural ends with s: `1 day`, `2 days`.
    public func counted(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}

extension Collection<String> {
    /// The first of these texts, each of at most 400 scalars, and how many more there are: `a, b, and 3 more`.
    ///
    /// For lines of the log and errors, if others decide how many there are.
    public func listed(most: Int = 20, separator: String = ", ") -> String {
        var shown = self.prefix(most).map { clipped($0, to: 400) }
        if self.count > most { shown.append("and \(self.count - most) more") }
        return shown.joined(separator: separator)
    }
}
