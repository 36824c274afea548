import FoundationEssentials
import Kafka
import Lua
import Model
import Operations
import Store

/// Decides what a record of a source becomes: changes, nothing, or a dead letter. No Kafka, no clock.
struct SourceMapping {
    /// A change that a program made.
    struct Change: Sendable {
        let message: KafkaMessage
        let change: OrderChange
        let type: ChangeType
        /// Members of the program's result that are not valid, and that the change goes without.
        var omitted: [OmittedMember] = []
    }

    enum Outcome: Sendable {
        case mapped([Change])
        case ignored(IgnoredRecord)
        case refused(ChangeFault)

        /// The name in metrics and spans.
        var name: String {
            switch self {
            case .mapped: "mapped"
            case .ignored: "ignored"
            case .refused: "refused"
            }
        }
    }

    /// The most changes of one record.
    static let changeLimit = 16

    let outcome: Outcome
    /// Values that the tables of the library do not know.
    private(set) var unknown: [UnknownValue] = []
    /// Counts the faults of the record's JSON that were mended.
    private(set) var foreign = ForeignJSON()
    /// The members that the changes go without.
    var omitted: [OmittedMember] {
        if case .mapped(let changes) = self.outcome { changes.flatMap(\.omitted) } else { [] }
    }
    /// Sentences for people about words that are not known, and about what was mended or left out.
    var notes: [String] {
        self.unknown.map { "unknown value: \($0.table) has no \"\($0.value)\"" }
            + self.foreign.faults.map { "mended: \($0.count) \($0.sentence)" } + self.omitted.map(\.description)
    }

    /// - Parameters:
    ///   - answer: that of the process which has decoded the record and run the program.
    ///   - topic: the topic for changes.
    ///   - nowEpochSeconds: refuses an order that was created much later.
    init(_ answer: MapperAnswer, _ record: KafkaRecord, _ source: Source, topic: String, nowEpochSeconds: Int64) {
        (self.unknown, self.foreign) = (answer.unknown, answer.foreign)
        do throws(ChangeFault) {
            switch answer.outcome {
            case .ignored(let kind): self.outcome = .ignored(kind)
            case .refused(let fault), .wanted(_, let fault): throw fault.named(source)
            case .event, .later: throw ChangeFault(code: .mapFailed, reason: "the record was not mapped")
            case .result(let value):
                let changes = try Self.list(value)
                if changes.isEmpty, source.refusesUnmapped {
                    throw ChangeFault(
                        code: .mapFailed, reason: "map.lua returned no change, and unmapped is dead-letter")
                }
                let own = answer.trace.first.flatMap {
                    TraceContext(traceparent: $0, tracestate: answer.trace.dropFirst().first)
                }
                let drafts = ChangeDrafts(
                    record: record, source: source, isSnapshot: answer.isSnapshot, topic: topic, now: nowEpochSeconds,
                    trace: own ?? TraceContext(headers: record.headers.map { ($0.name, $0.value) }))
                var mapped: [Change] = []
                for (index, change) in changes.enumerated() { mapped.append(try drafts.change(change, index + 1)) }
                self.outcome = mapped.isEmpty ? .ignored(.unmapped) : .mapped(mapped)
            }
        } catch {
            self.outcome = .refused(error)
        }
    }

    private static func list(_ bytes: [UInt8]) throws(ChangeFault) -> [JSON] {
        let value: JSON
        do { value = try JSON(parsing: bytes) } catch {
            throw ChangeFault(code: .mapLimit, reason: "the result of map cannot be read: \(error)")
        }
        guard let changes = value.array else {
            throw ChangeFault(
                code: .mapInvalidChange, reason: "map must return nothing or a list of changes, not \(value.kind)")
        }
        guard changes.count <= Self.changeLimit else {
            throw ChangeFault(
                code: .mapLimit, reason: "map returned \(changes.count) changes, at most \(Self.changeLimit) are taken")
        }
        return changes
    }
}

extension Source {
    /// Returns what the program gets of a parcel's order; nil for one of another source's order type.
    func owner(_ owner: ParcelIndex.Owner) -> ParcelOwner? {
        let (type, order) = (owner.order.orderType, owner.order.order.rawValue)
        switch self.orderTypes {
        case .one(let own): return own == type ? ParcelOwner(order: order, fulfillment: owner.fulfillment) : nil
        case .byBrand(let types):
            return types.filter { $0.value == type }.keys.min().map {
                ParcelOwner(order: order, fulfillment: owner.fulfillment, brand: $0)
            }
        }
    }

    /// Returns what becomes of a record that no program sees; nil for others.
    func verdict(on record: KafkaRecord) -> MapperAnswer? {
        if let start = self.start, record.timestampMilliseconds < start { return MapperAnswer(.ignored(.early)) }
        guard let count = record.value?.count, count > self.valueLimit else {
            guard let identifier = self.schema(of: record),
                case .failure(let fault)? = self.registry?.known(identifier)
            else { return nil }
            return MapperAnswer(fault)
        }
        return MapperAnswer(
            ChangeFault(
                code: .mapUndecodable, reason: "the value has \(count) bytes, an event has at most \(self.valueLimit)"))
    }

    /// Returns why a record must wait: its schema is not known, and is asked for.
    func reasonToAwait(_ record: KafkaRecord) -> String? {
        guard let registry = self.registry, let identifier = self.schema(of: record), registry.known(identifier) == nil
        else { return nil }
        return registry.reasonToAwait ?? "schema \(identifier) of source \(self.name) is being fetched"
    }

    /// The identifier of the schema of a record's value; nil without one.
    func schema(of record: KafkaRecord) -> UInt32? {
        self.registry == nil ? nil : record.value.flatMap(SchemaRegistry.identifier(of:))
    }
}

extension ChangeFault {
    /// Names the source of a fault that its program has.
    fileprivate func named(_ source: Source) -> ChangeFault {
        switch self.code {
        case .mapFailed, .mapLimit, .mapCrashed, .mapInexact, .mapUnknownAlias:
            ChangeFault(code: self.code, reason: "source \(source.name): \(self.reason)")
        default: self
        }
    }
}

/// Makes changes of the tables that a program returned for a record.
struct ChangeDrafts {
    let record: KafkaRecord
    let source: Source
    let isSnapshot: Bool
    let topic: String
    let now: Int64
    /// The trace of the record, which its changes go on with.
    let trace: TraceContext?

    /// - Parameter number: that of the change in its list, from 1.
    func change(_ value: JSON, _ number: Int) throws(ChangeFault) -> SourceMapping.Change {
        var members = try JSONMembers(value, path: "result[\(number)]") {
            ChangeFault(code: .mapInvalidChange, reason: $0)
        }
        let key = try self.key(&members)
        let type = try self.type(&members)
        var event: [(String, JSON)] = [
            ("specversion", "1.0"), ("type", .string(type.rawValue)), ("subject", .string(key)),
            ("source", .string(try self.eventSource(&members))),
            ("id", .string(try members.optionalText("id") ?? self.identifier(number))),
        ]
        switch members.take("sequence") {
        case nil: break
        case .number(let number)?: event.append(("sequence", .string(number.text)))
        case let other?: event.append(("sequence", other))
        }
        if let time = try members.optionalText("time") ?? self.recordTime { event.append(("time", .string(time))) }
        let isSilent = members.has("silent") ? try members.flag("silent") : self.isSilent
        if isSilent { event.append(("silent", true)) }
        let data = members.take("data")
        if type == .orderMerged, let owns = self.source.owns, data?.object?["owns"] == nil {
            event.append(("owns", .string(owns.joined(separator: ","))))
        }
        if let data { event.append(("data", data)) }
        try members.refuseRest()
        do throws(ChangeFault) {
            return try self.checked(JSONObject(event), key, type)
        } catch {
            throw ChangeFault(
                code: .mapInvalidChange, reason: "source \(self.source.name): result[\(number)]: \(error.reason)")
        }
    }

    /// Returns the key of the order: `<order type>/<order>`.
    private func key(_ members: inout JSONMembers<ChangeFault>) throws(ChangeFault) -> String {
        let order: String
        switch try members.value("order") {
        case .string(let text): order = text
        case .number(let number): order = number.text
        case let other: throw members.wrong("order", "must be a text or an integer, it is \(other.kind)")
        }
        do { _ = try OrderIdentifier(order) } catch { throw members.wrong("order", "\(error)") }
        let brand = try members.optionalText("brand")
        switch self.source.orderTypes {
        case .one(let type): return "\(type)/\(order)"
        case .byBrand(let types):
            guard let brand, let type = types[brand] else {
                throw members.wrong(
                    "brand", "\"\(brand ?? "")\" must be one of \(types.keys.sorted().joined(separator: ", "))")
            }
            return "\(type)/\(order)"
        }
    }

    /// Returns the `source` of a change: that of the source, or one below it, such as that of an aspect or a parcel.
    private func eventSource(_ members: inout JSONMembers<ChangeFault>) throws(ChangeFault) -> String {
        let own = self.source.eventSource
        guard let given = try members.optionalText("source"), given != own else { return own }
        guard given.hasPrefix("\(own)/") else {
            throw members.wrong("source", "\"\(given.prefix(80))\" must be \"\(own)\" or begin with \"\(own)/\"")
        }
        return given
    }

    /// `merged`, `fulfillment.updated`, or the full name.
    private func type(_ members: inout JSONMembers<ChangeFault>) throws(ChangeFault) -> ChangeType {
        guard let text = try members.optionalText("type") else { return .orderMerged }
        let names = [text, "waybill.\(text)", "waybill.order.\(text)"]
        guard let type = names.lazy.compactMap({ ChangeType(rawValue: $0) }).first else {
            let known = ChangeType.allCases.map { $0.rawValue.split(separator: ".").dropFirst().joined(separator: ".") }
            throw members.wrong("type", "\"\(text)\" must be merged or one of \(known.joined(separator: ", "))")
        }
        return type
    }

    /// The same for a redelivery; that of another cluster's record is another one.
    private func identifier(_ number: Int) -> String {
        let place = "\(self.record.topic)/\(self.record.partition)/\(self.record.offset)/\(number)"
        return self.record.cluster.isEmpty ? place : "\(self.record.cluster)/\(place)"
    }

    /// The record's timestamp in milliseconds.
    private var recordTime: String? {
        let milliseconds = self.record.timestampMilliseconds
        guard milliseconds >= 0 else { return nil }
        let rest = String(milliseconds % 1000 + 1000).dropFirst()
        return "\(RFC3339.format(epochSeconds: milliseconds / 1000).dropLast()).\(rest)Z"
    }

    private var isSilent: Bool {
        self.isSnapshot || self.source.silentBefore.map { self.record.timestampMilliseconds < $0 } ?? false
    }

    /// Reads the change as the packager will, and leaves out what is not valid and need not be there.
    private func checked(
        _ event: JSONObject, _ key: String, _ type: ChangeType
    ) throws(ChangeFault) -> SourceMapping.Change {
        let draft = try self.draft(event, key, type)
        let fold = Self.fold(draft.change.key.orderType)
        let fault = fold.fault(of: draft.change, nowEpochSeconds: self.now)
        if !self.source.isStrict, fault != nil || draft.change.isPartial {
            let (change, omitted) = fold.tolerating(draft.change, nowEpochSeconds: self.now)
            if change != draft.change, var data = change.data {
                var event = event
                if let owns = event["data"]?.object?["owns"] { data["owns"] = owns }
                event["data"] = .object(data)
                var mended = try self.draft(event, key, type)
                mended.omitted = omitted
                if let fault = fold.fault(of: mended.change, nowEpochSeconds: self.now) { throw fault }
                return mended
            }
        }
        if let fault { throw fault }
        return draft
    }

    private func draft(
        _ event: JSONObject, _ key: String, _ type: ChangeType
    ) throws(ChangeFault) -> SourceMapping.Change {
        let message = KafkaMessage(
            topic: self.topic, key: Array(key.utf8), value: event.serialized,
            headers: [KafkaHeader(name: "content-type", text: "application/cloudevents+json")]
                + self.trace.headers)
        let change = try OrderChange.decode(
            key: message.key ?? [], event: event, value: message.value ?? [],
            headers: message.headers.map { ($0.name, $0.value) })
        return SourceMapping.Change(message: message, change: change, type: type)
    }

    /// Returns the fold of an order whose brand is not known.
    static func fold(_ type: OrderTypeIdentifier) -> OrderFold {
        let rules = BrandRules(orderType: type, merchant: Self.merchant, webServiceURL: "https://example.com")
        return OrderFold(rules: rules) { _ in AuthenticationToken(derived: Self.token) }
    }

    static let token = String(repeating: "0", count: 32)
    /// A brand has one, which is not known here.
    private static let merchant: JSONObject = [
        "displayName": "Shop", "merchantIdentifier": "shop", "url": "https://example.com",
    ]
}
