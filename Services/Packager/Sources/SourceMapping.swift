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
    /// The parcels whose orders the program needs and that were not given.
    private(set) var wanted: [Parcel] = []

    /// - Parameters:
    ///   - topic: the topic for changes.
    ///   - schemas: as for `SourceEvent`.
    ///   - decoded: the event of a format with schemas, in a test.
    ///   - parcels: the orders of parcels; nil for one that no order has.
    ///   - nowEpochSeconds: refuses an order that was created much later.
    init(
        _ record: KafkaRecord, _ source: Source, topic: String,
        schemas: [UInt32: Result<AvroSchema, ChangeFault>] = [:], decoded: JSON? = nil,
        parcels: [Parcel: ParcelOwner?] = [:], nowEpochSeconds: Int64
    ) {
        if let start = source.start, record.timestampMilliseconds < start {
            self.outcome = .ignored(.early)
            return
        }
        do throws(ChangeFault) {
            var event = try SourceEvent(
                record, format: source.format, schemas: schemas, decoded: decoded, unavailable: source.unavailable,
                repeated: source.repeated)
            self.foreign = event.foreign
            let isLeftOut = event.isDeletion && !source.takesDeletions
            if let kind = event.passedOver ?? (isLeftOut ? .deletion : nil) {
                self.outcome = .ignored(kind)
                return
            }
            let result = try Self.run(&event, record, source, parcels, &self.wanted, &self.foreign)
            self.unknown = result.unknown
            let changes = try Self.list(result.value)
            if changes.isEmpty, source.refusesUnmapped {
                throw ChangeFault(code: .mapFailed, reason: "map.lua returned no change, and unmapped is dead-letter")
            }
            let drafts = ChangeDrafts(
                record: record, source: source, isSnapshot: event.isSnapshot, topic: topic, now: nowEpochSeconds,
                trace: TraceContext(event: event.event, headers: record.headers.map { ($0.name, $0.value) }))
            var mapped: [Change] = []
            for (index, change) in changes.enumerated() { mapped.append(try drafts.change(change, index + 1)) }
            self.outcome = mapped.isEmpty ? .ignored(.unmapped) : .mapped(mapped)
        } catch {
            self.outcome = .refused(error)
        }
    }

    /// Maps a record, and looks up the parcels that its program asks for.
    ///
    /// - Parameter index: nil: no order has a parcel.
    static func map(
        _ record: KafkaRecord, _ source: Source, topic: String, schemas: [UInt32: Result<AvroSchema, ChangeFault>],
        index: ParcelIndex?, nowEpochSeconds now: Int64
    ) async throws(StoreError) -> SourceMapping {
        var parcels: [Parcel: ParcelOwner?] = [:]
        while true {
            let mapping = SourceMapping(
                record, source, topic: topic, schemas: schemas, parcels: parcels, nowEpochSeconds: now)
            guard let index, !mapping.wanted.isEmpty, parcels.count < Parcel.limit else { return mapping }
            let owners = try await index.owners(of: mapping.wanted)
            for parcel in mapping.wanted {
                parcels.updateValue(owners[parcel].flatMap { source.owner($0) }, forKey: parcel)
            }
        }
    }

    /// Maps a record again whose dead letter is replayed.
    static func replay(
        _ record: KafkaRecord, _ table: SourceTable?, topic: String, index: ParcelIndex? = nil
    ) async -> Result<[KafkaMessage], ChangeFault> {
        guard let source = table?.source(of: record.topic) else {
            return .failure(ChangeFault(code: .mapFailed, reason: "no source reads \(record.topic)"))
        }
        let now = Int64(Date().timeIntervalSince1970)
        var schemas: [UInt32: Result<AvroSchema, ChangeFault>] = [:]
        if let away = await source.add(schemaOf: record, to: &schemas) {
            return .failure(ChangeFault(code: .mapUndecodable, reason: away))
        }
        let mapping: SourceMapping
        do {
            mapping = try await Self.map(
                record, source, topic: topic, schemas: schemas, index: index, nowEpochSeconds: now)
        } catch {
            return .failure(ChangeFault(code: .mapUnknownAlias, reason: "\(error)"))
        }
        switch mapping.outcome {
        case .ignored: return .success([])
        case .refused(let fault): return .failure(fault)
        case .mapped(let changes): return .success(changes.map(\.message))
        }
    }

    /// - Parameter event: read if its text has a fault, which is mended or refused there, or names a trace.
    private static func run(
        _ event: inout SourceEvent, _ record: KafkaRecord, _ source: Source, _ parcels: [Parcel: ParcelOwner?],
        _ wanted: inout [Parcel], _ foreign: inout ForeignJSON
    ) throws(ChangeFault) -> LuaProgram.Result {
        let facts = SourceEvent.facts(of: record)
        if let text = event.text {
            let result = try Self.run(source, parcels, &wanted) { (program) throws(LuaFailure) in
                try program.map(text: text.bytes, record: facts, constants: source.constants, parcels: parcels)
            }
            if result?.isTraced != false {
                try event.read()
                foreign = event.foreign
            }
            if let result { return result }
        }
        let value = event.event
        return try Self.run(source, parcels, &wanted) { (program) throws(LuaFailure) in
            try program.map(value, record: facts, constants: source.constants, parcels: parcels)
        }
    }

    private static func run<Result>(
        _ source: Source, _ parcels: [Parcel: ParcelOwner?], _ wanted: inout [Parcel],
        _ body: (LuaProgram) throws(LuaFailure) -> Result
    ) throws(ChangeFault) -> Result {
        do {
            return try source.program.run(body)
        } catch {
            wanted = error.parcels.filter { parcels[$0] == nil }
            let code: ChangeFault.Code =
                switch error.kind {
                case .failed: .mapFailed
                case .limited: .mapLimit
                case .inexact: .mapInexact
                case .unknownParcel: .mapUnknownAlias
                }
            throw ChangeFault(code: code, reason: "source \(source.name): \(error.message)")
        }
    }

    private static func list(_ value: JSON) throws(ChangeFault) -> [JSON] {
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

    /// Looks up the schema that a record needs.
    ///
    /// - Returns: nil, or why it is not known now.
    func add(
        schemaOf record: KafkaRecord, to schemas: inout [UInt32: Result<AvroSchema, ChangeFault>]
    ) async -> String? {
        guard let (registry, identifier) = self.schema(of: record), schemas[identifier] == nil else { return nil }
        switch await registry.schema(identifier) {
        case .schema(let schema): schemas[identifier] = .success(schema)
        case .missing(let fault): schemas[identifier] = .failure(fault)
        case .away(let reason): return reason
        }
        return nil
    }

    /// Adds the schema that a record needs without waiting for the registry.
    ///
    /// - Returns: nil, or why it is not known now.
    func add(
        knownSchemaOf record: KafkaRecord, to schemas: inout [UInt32: Result<AvroSchema, ChangeFault>]
    ) -> String? {
        guard let (registry, identifier) = self.schema(of: record), schemas[identifier] == nil else { return nil }
        schemas[identifier] = registry.known(identifier)
        guard schemas[identifier] == nil else { return nil }
        return registry.reasonToAwait ?? "schema \(identifier) of source \(self.name) is being fetched"
    }

    private func schema(of record: KafkaRecord) -> (SchemaRegistry, UInt32)? {
        guard let registry = self.registry, let identifier = record.value.flatMap(SchemaRegistry.identifier(of:)) else {
            return nil
        }
        return (registry, identifier)
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
            ("source", .string(try members.optionalText("source") ?? self.source.eventSource)),
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
