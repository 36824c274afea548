import ArgumentParser
import FoundationEssentials
import Glibc
import Kafka
import Lua
import Model
import Operations
import Sandbox

/// A folder of sources for a command that runs without Kafka.
struct SourcesOption: ParsableArguments {
    @Option(help: "The directory of sources; default: WAYBILL_SOURCES.")
    var sources: String?

    /// - Throws: `ValidationError` without a directory.
    func directory() throws -> String {
        let variable = ProcessInfo.processInfo.environment[SettingKey.sources.rawValue]
        guard let path = self.sources ?? variable, !path.isEmpty else {
            throw ValidationError("give --sources, or set \(SettingKey.sources.rawValue)")
        }
        return path
    }

    /// Returns the directory and the sources that an operator names, all of them by default.
    func chosen(_ names: [String]) throws -> (directory: String, names: [String]) {
        let directory = try self.directory()
        return (directory, names.isEmpty ? try SourceLibrary.names(in: directory) : names)
    }

    func source(_ name: String) throws -> Source {
        try Source.load(folder: "\(try self.directory())/\(name)", name: name, in: try self.sandbox())
    }

    func sandbox() throws -> Sandbox { try .mapperOfCommand() }

    /// Calls `body` with a mapper of one process.
    func withMapper(_ body: (Mapper) async throws -> Void) async throws {
        let mapper = Mapper(try self.sandbox(), count: 1)
        try await mapper.start()
        try await withCleanup(mapper.close) { try await body(mapper) }
    }
}

/// Gives a person's orders of parcels to all records.
struct KnownParcels: RecordMapper {
    let mapper: any RecordMapper
    let parcels: [Parcel: ParcelOwner?]

    func map(_ tasks: [MapperTask], _ source: Source) async throws(MapperUnavailable) -> [MapperAnswer] {
        var tasks = tasks
        for index in tasks.indices { tasks[index].parcels = self.parcels }
        return try await self.mapper.map(tasks, source)
    }
}

/// `waybill-packager ingest map`: the changes of one record.
struct IngestMapCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "map",
        abstract: "Prints the changes that a source makes of the record on standard input.",
        discussion: """
            Standard input is the record's value as it is in the topic. Each change is checked as the packager does. \
            With --against, the differences that the changes make to an order are printed instead. Exit codes: 0: \
            mapped or ignored; 1: the record would become a dead letter, whose code and reason are printed.
            """)

    @Argument(help: "The source: the name of its folder.")
    var source: String
    @OptionGroup var sources: SourcesOption
    @Option(help: "The record's topic; default: the first name in source.json.")
    var topic: String?
    @Option(help: "The record's key.")
    var key: String?
    @Option(help: "The record's headers, NAME=VALUE, once for each.")
    var header: [String] = []
    @Option(help: "The order of a parcel, CARRIER/NUMBER=ORDER/FULFILLMENT, once for each.")
    var alias: [String] = []
    @Option(help: "A file with an order document: print what the changes make of it.")
    var against: String?
    @Option(help: "The record's time, such as 2026-01-01T00:00:00Z; default: now.")
    var time: String?
    @Flag(help: "Print each member of a change on a line of its own.")
    var pretty = false

    func run() async throws {
        let source = try self.sources.source(self.source)
        var headers: [KafkaHeader] = []
        for text in self.header {
            guard let mark = text.firstIndex(of: "=") else {
                throw ValidationError("--header \(text): must be NAME=VALUE")
            }
            headers.append(KafkaHeader(name: String(text[..<mark]), text: String(text[text.index(after: mark)...])))
        }
        let now = Int64(Glibc.time(nil))
        guard let seconds = self.time.map({ RFC3339.parse($0) }) ?? now else {
            throw ValidationError("--time must be a time like 2026-01-01T00:00:00Z")
        }
        let record = KafkaRecord(
            topic: self.topic ?? source.topics[0], partition: 0, offset: 0, timestampMilliseconds: seconds * 1000,
            key: self.key.map { Array($0.utf8) }, value: try Self.standardInput(), headers: headers)
        let parcels = try self.parcels()
        try await self.sources.withMapper { mapper in
            let known = KnownParcels(mapper: mapper, parcels: parcels)
            let mapping = try await SourceMapper(mapper: known, topic: Topics().orderChanges)
                .map(record, source, schemas: mapper, nowEpochSeconds: now)
            try self.show(mapping, now)
        }
    }

    private func show(_ mapping: SourceMapping, _ now: Int64) throws {
        for note in mapping.notes { StandardStream.error.write("note: \(note)\n") }
        switch mapping.outcome {
        case .ignored(let kind): StandardStream.error.write("ignored: \(kind.reason)\n")
        case .refused(let fault):
            StandardStream.error.write("\(fault)\n")
            throw ExitCode(1)
        case .mapped(let changes):
            if let path = self.against { return try Self.compare(changes, path, now) }
            for change in changes {
                StandardStream.output.write("\(try self.text(of: change))\n")
            }
            let made = changes.map(\.change)
            for note in OrderComparison.notes(on: made, nowEpochSeconds: now)
                + OrderComparison.guidelines(on: made)
            {
                StandardStream.error.write("note: \(note)\n")
            }
        }
    }

    private func text(of change: SourceMapping.Change) throws -> String {
        let bytes = change.message.value ?? []
        guard self.pretty else { return String(decoding: bytes, as: UTF8.self) }
        return DeadLetterFormatter.pretty(try JSON(parsing: bytes))
    }

    private func parcels() throws -> [Parcel: ParcelOwner?] {
        var parcels: [Parcel: ParcelOwner?] = [:]
        for text in self.alias {
            let sides = text.split(separator: "=", maxSplits: 1).map { $0.split(separator: "/", maxSplits: 1) }
            guard sides.count == 2, sides.allSatisfy({ $0.count == 2 }),
                let parcel = Parcel(carrier: String(sides[0][0]), number: String(sides[0][1]))
            else { throw ValidationError("--alias \(text): must be CARRIER/NUMBER=ORDER/FULFILLMENT") }
            parcels[parcel] = ParcelOwner(order: String(sides[1][0]), fulfillment: String(sides[1][1]))
        }
        return parcels
    }

    private static func compare(_ changes: [SourceMapping.Change], _ path: String, _ now: Int64) throws {
        let document: OrderDocument
        do {
            let json = try JSON(parsing: try FileContent.read(path, limit: OrderChange.valueLimit, isPipeAllowed: true))
            guard case .object(var members) = json else { throw ValidationError("it is \(json.kind)") }
            // A package's document names the service, and has the secret of its devices.
            for name in ["webServiceURL", "authenticationToken"] { members[name] = nil }
            document = OrderDocument(members: members)
        } catch {
            throw ValidationError("--against \(path): must be an order document: \(error)")
        }
        do throws(ChangeFault) {
            let lines = try OrderComparison(document: document).lines(changes.map(\.change), nowEpochSeconds: now)
            StandardStream.output.write(lines.map { "\($0)\n" }.joined())
        } catch {
            StandardStream.error.write("\(error)\n")
            throw ExitCode(1)
        }
    }

    private static func standardInput() throws -> [UInt8] {
        do { return try FileContent.read("/dev/stdin", limit: OrderChange.valueLimit, isPipeAllowed: true) } catch {
            throw ValidationError("standard input cannot be read: \(error)")
        }
    }
}
