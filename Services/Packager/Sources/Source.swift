import Cryptography
import Fetch
import FoundationEssentials
import Lua
import Model
import Operations
import Sandbox

/// One source of events of another system: a folder with `source.json`, `map.lua` and `tests`.
struct Source: Sendable {
    /// The form of the records.
    enum Format: String, CaseIterable, Sendable {
        case json, cloudevents, debezium, avro
        case avroDebezium = "avro+debezium"

        /// True if a registry has the schemas.
        var hasSchemas: Bool { self == .avro || self == .avroDebezium }
    }

    /// The order types of a source's orders.
    enum OrderTypes: Hashable, Sendable {
        case one(OrderTypeIdentifier)
        /// By the `brand` that a change names.
        case byBrand([String: OrderTypeIdentifier])
    }

    /// The name of its folder.
    let name: String
    /// Names, and patterns that begin with `^`.
    let topics: [String]
    let format: Format
    /// Where the schemas are; nil for a format without.
    let registry: SchemaRegistry?
    /// The `source` of its changes.
    let eventSource: String
    let orderTypes: OrderTypes
    /// The members that its merged changes own, unless they say so themselves.
    let owns: [String]?
    /// Records from before are ignored; milliseconds since 1970.
    let start: Int64?
    /// True if a partition that the role has never read begins at its end.
    let startsAtEnd: Bool
    /// Changes of records from before are silent; milliseconds since 1970.
    let silentBefore: Int64?
    /// True if an event without a change becomes a dead letter.
    let refusesUnmapped: Bool
    /// True if a change is refused for any member that is not valid; else such a member is left out if it may be.
    let isStrict: Bool
    /// The longest value of a record, in bytes; of JSON it may have `JSON.entryLimit` entries.
    let valueLimit: Int
    let program: MapperProgram
    /// The number of times that its folder was loaded before.
    var generation = 0
}

/// A folder of a source that cannot be used.
struct SourceError: Error, Hashable, CustomStringConvertible {
    /// Names file, path and remedy.
    let description: String

    init(_ description: String) { self.description = description }
}

/// Reading a source's folder.
extension Source {
    /// The largest file that is read, in bytes.
    private static let fileLimit = 1 << 20
    private static let topicLimit = 32
    private static let constantsLimit = 1 << 16

    /// Reads `source.json` and `map.lua`, and loads the program in a mapper process. Blocks.
    ///
    /// Strict: an unknown member is refused, since it is usually a typing error.
    static func load(folder: String, name: String, in sandbox: Sandbox) throws(SourceError) -> Source {
        let source = try Self.read(folder: folder, name: name)
        do throws(SourceError) { try source.program.check(in: sandbox) } catch {
            throw SourceError("\(name): \(error)")
        }
        return source
    }

    /// Reads a source whose program may be none.
    static func read(folder: String, name: String) throws(SourceError) -> Source {
        do throws(SourceError) {
            let content = try Self.content("source.json", folder)
            let program = try Self.content("map.lua", folder)
            let json: JSON
            do { json = try JSON(parsing: content) } catch { throw SourceError("source.json: \(error)") }
            return try Source(json, name: name, folder: folder, program: program)
        } catch {
            throw SourceError("\(name): \(error)")
        }
    }

    /// The same with all faults that can be told apart: that of `source.json`, and that of `map.lua`.
    static func loadAll(
        folder: String, name: String, in sandbox: Sandbox
    ) -> (source: Source?, faults: [SourceError]) {
        do throws(SourceError) {
            return (try Self.load(folder: folder, name: name, in: sandbox), [])
        } catch {
            guard "\(error)".hasPrefix("\(name): source.json"),
                let text = try? Self.content("map.lua", folder)
            else { return (nil, [error]) }
            do throws(SourceError) {
                try MapperProgram(text).check(in: sandbox)
                return (nil, [error])
            } catch let failure {
                return (nil, [error, SourceError("\(name): \(failure)")])
            }
        }
    }

    private init(_ json: JSON, name: String, folder: String, program: [UInt8]) throws(SourceError) {
        var file = try JSONMembers(json, path: "source.json: $") { SourceError($0) }
        self.name = name
        self.topics = try file.texts("topics")
        guard (1...Self.topicLimit).contains(self.topics.count), Set(self.topics).count == self.topics.count else {
            throw file.wrong("topics", "must be 1 to \(Self.topicLimit) names or patterns, each once")
        }
        for topic in self.topics where !Self.isTopic(topic) {
            throw file.wrong("topics", "\"\(topic)\" is neither a topic's name nor a regular expression with ^")
        }
        guard let format: Format = try file.choice("format") else {
            throw file.wrong("format", "is missing: give \(Format.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        self.format = format
        self.registry = try Self.registry(&file, format, folder)
        var mapper = MapperProgram(program)
        mapper.format = format
        mapper.unavailable = try Self.unavailable(&file, format)
        mapper.repeated = try file.choice("repeated") ?? .refuse
        self.eventSource = try file.text("name")
        self.orderTypes = try Self.orderTypes(&file)
        self.owns = try file.optionalTexts("owns")
        let start = try file.optionalText("start") ?? "earliest"
        self.startsAtEnd = start == "latest"
        self.start =
            self.startsAtEnd || start == "earliest"
            ? nil : try Self.moment(start, file, "start", or: "\"earliest\", \"latest\" or ")
        self.silentBefore = try file.optionalText("silentBefore").map { (text) throws(SourceError) in
            try Self.moment(text, file, "silentBefore")
        }
        let constants = JSON.object(try file.optionalObject("constants") ?? JSONObject())
        guard constants.serialized.count <= Self.constantsLimit else {
            throw file.wrong("constants", "may have \(Self.constantsLimit) bytes at most")
        }
        mapper.constants = constants
        mapper.takesDeletions = try file.flag("deletions")
        switch try file.optionalText("unmapped") {
        case nil, "ignore"?: self.refusesUnmapped = false
        case "dead-letter"?: self.refusesUnmapped = true
        case let other?: throw file.wrong("unmapped", "\"\(other)\" must be \"ignore\" or \"dead-letter\"")
        }
        self.isStrict = try file.flag("strict")
        var valueLimit: Int64?
        if var given = try file.optionalMembers("limits") {
            mapper.limits.memory = Int(try Self.limit(&given, "memoryMiB", 1...32) ?? 16) << 20
            mapper.limits.steps = try Self.limit(&given, "instructions", 1000...100_000_000) ?? mapper.limits.steps
            valueLimit = try Self.limit(&given, "bytes", 1024...(8 << 20))
            try given.refuseRest()
        }
        self.valueLimit = Int(valueLimit ?? Int64(OrderChange.valueLimit))
        let usual = Self.minorUnits(ofSource: self.eventSource)
        mapper.minorUnits = try file.choice("minorUnits") ?? usual
        try file.refuseRest()
        self.program = mapper
    }

    /// A source that is named after a provider, such as `/adyen` or `/stripe/refunds`, has its amounts.
    private static func minorUnits(ofSource name: String) -> MinorUnits {
        name.split(separator: "/").first.flatMap { MinorUnits(rawValue: String($0)) } ?? .iso4217
    }

    private static func registry(
        _ file: inout JSONMembers<SourceError>, _ format: Format, _ folder: String
    ) throws(SourceError) -> SchemaRegistry? {
        guard var members = try file.optionalMembers("registry") else {
            if format.hasSchemas { throw file.wrong("registry", "is missing: \(format.rawValue) needs its url") }
            return nil
        }
        guard format.hasSchemas else { throw file.wrong("registry", "belongs to avro and avro+debezium only") }
        var configuration = SchemaRegistry.Configuration(url: try members.text("url"))
        while configuration.url.hasSuffix("/") { configuration.url.removeLast() }
        guard configuration.url.hasPrefix("https://") else { throw members.wrong("url", "must begin with https://") }
        for text in try members.optionalTexts("addresses") ?? [] {
            guard let address = IPAddress(text) else { throw members.wrong("addresses", "must be IP addresses") }
            configuration.addresses.insert(address)
        }
        if let name = try members.optionalFile("authorization") {
            let text = String(decoding: try Self.content(name, folder), as: UTF8.self)
            configuration.authorization = text.split(separator: "\n").first.map(String.init)
        }
        if let name = try members.optionalFile("roots") {
            configuration.rootsPEM = try Self.content(name, folder)
        }
        try members.refuseRest()
        do { return try SchemaRegistry(configuration) } catch { throw SourceError("registry: \(error)") }
    }

    /// Reads the property of the connector, by its name.
    ///
    /// Source: Debezium 3, `unavailable.value.placeholder`
    private static func unavailable(
        _ file: inout JSONMembers<SourceError>, _ format: Format
    ) throws(SourceError) -> UnavailableValue {
        guard let text = try file.optionalText("unavailableValuePlaceholder") else { return .standard }
        guard format == .debezium || format == .avroDebezium else {
            throw file.wrong("unavailableValuePlaceholder", "belongs to debezium and avro+debezium only")
        }
        let digits = text.hasPrefix("hex:") ? text.dropFirst(4).lowercased() : nil
        guard let bytes = digits.map({ Hexadecimal.bytes($0) }) ?? Array(text.utf8), (1...1000).contains(bytes.count)
        else {
            throw file.wrong(
                "unavailableValuePlaceholder", "must be 1 to 1000 bytes, as a text or as hex: with two digits for each")
        }
        return UnavailableValue(bytes, uuid: MD5.digest(bytes).map { UnavailableValue.uuid(of: $0) })
    }

    private static func orderTypes(_ file: inout JSONMembers<SourceError>) throws(SourceError) -> OrderTypes {
        func identifier(_ text: String) throws(SourceError) -> OrderTypeIdentifier {
            do { return try OrderTypeIdentifier(text) } catch { throw file.wrong("orderType", "\(error)") }
        }
        switch try file.value("orderType") {
        case .string(let text): return .one(try identifier(text))
        case .object(let table) where !table.isEmpty:
            var types: [String: OrderTypeIdentifier] = [:]
            for member in table.members { types[member.name] = try identifier(member.value.string ?? "") }
            return .byBrand(types)
        default:
            throw file.wrong("orderType", "must be an order type, or an object that has one for each brand")
        }
    }

    /// Returns the milliseconds since 1970 of a member.
    private static func moment(
        _ text: String, _ file: JSONMembers<SourceError>, _ name: String, or words: String = ""
    ) throws(SourceError) -> Int64 {
        guard let seconds = RFC3339.parse(text) else {
            throw file.wrong(name, "must be \(words)a time like 2026-01-01T00:00:00Z")
        }
        return seconds * 1000
    }

    private static func limit(
        _ members: inout JSONMembers<SourceError>, _ name: String, _ range: ClosedRange<Int64>
    ) throws(SourceError) -> Int64? {
        guard members.has(name) else { return nil }
        return try members.integer(name, in: range)
    }

    private static func isTopic(_ name: String) -> Bool {
        Topics.isPattern(name) ? TopicPattern(name) != nil : Topics.isName(name)
    }

    /// Reads a file inside of a source's folder.
    static func content(_ name: String, _ folder: String) throws(SourceError) -> [UInt8] {
        do {
            return try FileContent.read(name, inside: folder, limit: Self.fileLimit)
        } catch {
            throw SourceError("\(name): \(error)")
        }
    }
}
