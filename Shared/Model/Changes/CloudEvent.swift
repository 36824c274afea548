/// An event as it arrived, in either mode, with the attributes that Waybill needs and its data as JSON.
///
/// Structured mode: the value is the event (`content-type: application/cloudevents+json`, or no `content-type`).
/// Binary mode: the attributes are in `ce_*` headers and the value is the data. As the binding says, the content type
/// decides, so that a structured event may repeat its attributes in headers. Header values are plain UTF-8: the binding
/// for Kafka, unlike that for HTTP, has no percent-encoding, and decoding it would change identifiers with a `%`.
/// Source: CloudEvents 1.0.2 §3.1; CloudEvents Kafka binding 1.0.2 §3, §3.2.3, §3.3; CloudEvents JSON format 1.0.2 §3
struct CloudEvent {
    let type: ChangeType
    let source: String
    let id: String
    let subject: String
    let sequence: String?
    /// `time`, milliseconds since 1970.
    let epochMilliseconds: Int64?
    /// Waybill's extension `silent`.
    let isSilent: Bool
    /// Waybill's extension `owns`; nil when it is absent.
    let owns: OwnedPaths?
    /// Waybill's extension `ifversion`; nil when it is absent.
    let ifVersion: Int64?
    /// The extension for distributed tracing; nil if it is absent or not valid.
    let trace: TraceContext?
    /// The data; nil if it is absent or null.
    let data: JSON?
    private let isBinary: Bool

    init(value: [UInt8]?, headers: [(name: String, value: [UInt8]?)]) throws(ChangeFault) {
        let contentType = try Self.contentType(headers)
        let isStructured = contentType.map { isMediaType($0, "application/cloudevents") } ?? false
        if !isStructured, headers.contains(where: { $0.name == "ce_specversion" }) {
            try self.init(binary: value, headers: headers, contentType: contentType)
        } else {
            let isDashed = headers.contains { $0.name.lowercased().hasPrefix("ce-") }
            try self.init(structured: value, contentType: contentType, isDashed: isDashed)
        }
    }

    /// Returns the name of an attribute for messages to people.
    func path(_ attribute: String) -> String { self.isBinary ? "header ce_\(attribute)" : "$.\(attribute)" }

    /// - Parameter isDashed: whether the record has the headers of the binding for HTTP.
    private init(structured value: [UInt8]?, contentType: String?, isDashed: Bool) throws(ChangeFault) {
        let dashed = "; headers ce-… are HTTP's, in Kafka they are ce_… with an underscore"
        guard let value, !value.isEmpty else {
            throw ChangeFault(code: .missingValue, reason: "the record has no value, it must be a CloudEvent")
        }
        if let contentType, !isMediaType(contentType, "application/cloudevents+json") {
            throw ChangeFault(
                code: .invalidEvent,
                reason: "header content-type is \"\(clipped(contentType))\": send application/cloudevents+json, "
                    + "or the attributes in ce_ headers" + (isDashed ? dashed : ""))
        }
        let json = try Self.json(value, "the value")
        guard case .object(let members) = json else {
            throw ChangeFault(code: .invalidEvent, reason: "$ must be a CloudEvent (an object), it is \(json.kind)")
        }
        if members["specversion"] == nil {
            throw ChangeFault(
                code: .invalidEvent,
                reason:
                    "$.specversion is missing or empty: the value must be a CloudEvent, an object with specversion, "
                    + "id, source, type and subject, and an order document goes into its data"
                    + (isDashed ? dashed : ""))
        }
        try self.init(members)
    }

    /// Reads an event in structured mode that is JSON already.
    init(_ members: JSONObject) throws(ChangeFault) {
        try self.init(isBinary: false) { (name) in
            members[name] == .null ? nil : members[name]
        } data: { () throws(ChangeFault) in
            if let encoded = members["data_base64"], encoded != .null {
                throw ChangeFault(
                    code: .invalidEvent, reason: "$.data_base64 is not taken, write the JSON itself into $.data")
            }
            if let type = members["datacontenttype"], type != .null, !(type.string.map(isJSONMediaType) ?? false) {
                let found = type.string.map { "\"\(clipped($0))\"" } ?? type.kind
                throw ChangeFault(
                    code: .invalidEvent, reason: "$.datacontenttype must be application/json, it is \(found)")
            }
            return members["data"] == .null ? nil : members["data"]
        }
    }

    private init(
        binary value: [UInt8]?, headers: [(name: String, value: [UInt8]?)], contentType: String?
    ) throws(ChangeFault) {
        try self.init(isBinary: true) { (name) throws(ChangeFault) in
            try Self.header("ce_\(name)", headers).map { .string($0) }
        } data: { () throws(ChangeFault) in
            if let contentType, !isJSONMediaType(contentType) {
                throw ChangeFault(
                    code: .invalidEvent,
                    reason: "header content-type must be application/json, it is \"\(clipped(contentType))\"")
            }
            guard let value, !value.isEmpty else { return nil }
            let json = try Self.json(value, "the value")
            return json == .null ? nil : json
        }
        let needsData = self.type != .orderRemoved && self.type != .orderAnnounced
        if self.data == nil, needsData, value == nil || value?.isEmpty == true {
            throw ChangeFault(
                code: .missingValue, reason: "the record has no value, the data of \(self.type.rawValue) is expected")
        }
    }

    /// Reads the parts that both modes have: the attributes are checked before the data is read.
    private init(
        isBinary: Bool, value: (String) throws(ChangeFault) -> JSON?, data: () throws(ChangeFault) -> JSON?
    ) throws(ChangeFault) {
        let prefix = isBinary ? "header ce_" : "$."
        func attribute(_ name: String) throws(ChangeFault) -> String? {
            guard let value = try value(name) else { return nil }
            guard case .string(let text) = value else {
                throw ChangeFault(
                    code: .invalidEvent, reason: "\(prefix)\(name) must be a string, it is \(value.kind)")
            }
            return text
        }
        func required(_ name: String, limit: Int) throws(ChangeFault) -> String {
            guard let text = try attribute(name), !text.isEmpty else {
                throw ChangeFault(code: .invalidEvent, reason: "\(prefix)\(name) is missing or empty")
            }
            guard text.utf8.count <= limit else {
                throw ChangeFault(code: .invalidEvent, reason: "\(prefix)\(name) is longer than \(limit) bytes")
            }
            return text
        }
        let version = try required("specversion", limit: 64)
        guard version == "1.0" else {
            throw ChangeFault(
                code: .invalidEvent, reason: "\(prefix)specversion must be \"1.0\", it is \"\(clipped(version))\"")
        }
        let name = try required("type", limit: OrderChange.valueLimit)
        guard let type = ChangeType(rawValue: name) else {
            throw ChangeFault(
                code: .unknownType,
                reason: "\(prefix)type is \"\(clipped(name))\", which is not one of "
                    + ChangeType.allCases.map(\.rawValue).joined(separator: ", "))
        }
        self.isBinary = isBinary
        self.type = type
        self.source = try required("source", limit: OrderChange.sourceLimit)
        self.id = try required("id", limit: OrderChange.idLimit)
        self.subject = try required("subject", limit: OrderChange.valueLimit)
        self.sequence = try attribute("sequence")
        if let sequence {
            guard !sequence.isEmpty, sequence.utf8.count <= OrderChange.sequenceLimit,
                sequence.utf8.allSatisfy({ $0 &- UInt8(ascii: "0") < 10 })
            else {
                throw ChangeFault(
                    code: .invalidEvent,
                    reason: "\(prefix)sequence must be 1 to \(OrderChange.sequenceLimit) digits, "
                        + "it is \"\(clipped(sequence))\"")
            }
        }
        self.epochMilliseconds = try attribute("time").map { (time) throws(ChangeFault) in
            if let instant = RFC3339.instant(time) { return instant.epochMilliseconds }
            throw ChangeFault(
                code: .invalidEvent,
                reason: "\(prefix)time must be a date-time like 2025-03-05T16:02:11Z, it is \"\(clipped(time))\"")
        }
        switch try value("silent") {
        case nil, .bool(false)?, .string("false")?: self.isSilent = false
        case .bool(true)?, .string("true")?: self.isSilent = true
        case let other?:
            throw ChangeFault(
                code: .invalidEvent,
                reason: "\(prefix)silent must be true or false, it is \"\(clipped(other.string ?? other.text))\"")
        }
        self.owns = try value("owns").map { (names) throws(ChangeFault) in
            try OrderChange.owns(names, path: "\(prefix)owns")
        }
        self.ifVersion = try attribute("ifversion").map { (text) throws(ChangeFault) in
            if let version = Int64(text), OrderState.versionRange.contains(version) { return version }
            throw ChangeFault(
                code: .invalidEvent,
                reason: "\(prefix)ifversion must be the version of an order, it is \"\(clipped(text))\"")
        }
        // A trace that cannot be read is none.
        let parent = (try? value(TraceHeader.traceparent))?.string
        self.trace = parent.flatMap {
            TraceContext(traceparent: $0, tracestate: (try? value(TraceHeader.tracestate))?.string)
        }
        self.data = try data()
    }

    /// - Parameter what: the beginning of the sentence.
    private static func json(_ bytes: [UInt8], _ what: String) throws(ChangeFault) -> JSON {
        do {
            return try JSON(parsing: bytes)
        } catch {
            if error.code == .tooManyEntries {
                throw ChangeFault(code: .valueTooLarge, reason: "\(what) has \(error)")
            }
            // Bytes that are not text at all are reported as such, wherever they are; only this path looks for them.
            guard error.code != .invalidUTF8, String(validating: bytes, as: UTF8.self) != nil else {
                throw ChangeFault(code: .invalidUTF8, reason: "\(what) is not UTF-8: \(error)")
            }
            throw ChangeFault(code: .invalidJSON, reason: "\(what) is not JSON: \(error)")
        }
    }

    /// Returns the only header of a name.
    private static func header(
        _ name: String, _ headers: [(name: String, value: [UInt8]?)]
    ) throws(ChangeFault) -> String? {
        var found: String?
        for header in headers where header.name == name {
            guard let bytes = header.value else { continue }
            guard let text = String(validating: bytes, as: UTF8.self) else {
                throw ChangeFault(code: .invalidUTF8, reason: "header \(name) is not UTF-8")
            }
            guard found == nil else {
                throw ChangeFault(code: .invalidEvent, reason: "header \(name) occurs twice in the record")
            }
            found = text
        }
        return found
    }

    private static func contentType(
        _ headers: [(name: String, value: [UInt8]?)]
    ) throws(ChangeFault) -> String? {
        // Written in lower case by the binding, with capitals by some bridges from HTTP.
        let named = headers.filter { $0.name.utf8.count == 12 && $0.name.lowercased() == "content-type" }
        return try self.header("content-type", named.map { (name: "content-type", value: $0.value) })
    }
}

/// The `type` of an event.
///
/// Source: Design §3
public enum ChangeType: String, Hashable, Sendable, CaseIterable {
    case orderReplaced = "waybill.order.replaced"
    case orderMerged = "waybill.order.merged"
    case orderPatched = "waybill.order.patched"
    case fulfillmentUpdated = "waybill.fulfillment.updated"
    case returnUpdated = "waybill.return.updated"
    case orderAnnounced = "waybill.order.announced"
    case orderRemoved = "waybill.order.removed"
}

/// Returns true if a media type, without its parameters, is `type`, or `type` with a suffix if `type` has none.
///
/// Source: RFC 9110 §8.3.1: types are compared without case, parameters follow a semicolon.
public func isMediaType(_ text: String, _ type: String) -> Bool {
    let essence = mediaTypeEssence(text)
    return essence == type || (!type.contains("+") && essence.hasPrefix("\(type)+"))
}

/// Returns true if the data of an event with this content type is JSON in UTF-8.
///
/// Source: CloudEvents 1.0.2 §3.1, `datacontenttype`; RFC 6839 §3.1 for the suffix `+json`
public func isJSONMediaType(_ text: String) -> Bool {
    let essence = mediaTypeEssence(text)
    return essence == "application/json" || essence == "text/json" || essence.hasSuffix("+json")
}

private func mediaTypeEssence(_ text: String) -> String {
    let essence = text.utf8.prefix { $0 != UInt8(ascii: ";") }
    let trimmed = essence.drop { $0 == 0x20 || $0 == 0x09 }
    let end = trimmed.lastIndex { $0 != 0x20 && $0 != 0x09 }.map { trimmed.index(after: $0) } ?? trimmed.startIndex
    return (String(trimmed[..<end]) ?? "").lowercased()
}
