import FoundationEssentials
import Kafka
import Lua
import Model
import Operations
import Sandbox
import Synchronization

/// The part of a source that a mapper process has: how records are decoded, and the program that maps them.
struct MapperProgram: Sendable {
    private static let last = Atomic<Int64>(0)

    let text: [UInt8]
    var format = Source.Format.json
    var limits = LuaProgram.Limits()
    var minorUnits = MinorUnits.iso4217
    /// Stands for a column of Debezium that the database did not send.
    var unavailable = UnavailableValue.standard
    /// The value of a member that occurs with several.
    var repeated = ForeignJSON.RepeatedMember.refuse
    /// True if the program gets tombstones and deleted rows.
    var takesDeletions = false
    /// The global `constants` of the program.
    var constants = JSON.object(JSONObject())
    /// Another one for each that is made.
    let identity = Self.last.add(1, ordering: .relaxed).newValue

    init(_ text: [UInt8]) { self.text = text }

    func write(to writer: inout SandboxWriter) {
        writer.add(self.text)
        writer.add(self.format.rawValue)
        writer.add(Int64(self.limits.memory))
        writer.add(self.limits.steps)
        writer.add(self.minorUnits.rawValue)
        writer.add(self.unavailable.bytes)
        writer.add(self.unavailable.uuid) { $0.add($1) }
        writer.add(self.repeated.rawValue)
        writer.add(self.takesDeletions)
        writer.add(self.constants.serialized)
    }

    init(reading reader: inout SandboxReader) throws(SandboxFormatError) {
        self.text = try reader.data()
        self.format = try reader.choice()
        self.limits.memory = Int(try reader.integer())
        self.limits.steps = try reader.integer()
        self.minorUnits = try reader.choice()
        let bytes = try reader.data()
        let uuid = try reader.optionalText()
        self.unavailable = UnavailableValue(bytes, uuid: uuid)
        self.repeated = try reader.choice()
        self.takesDeletions = try reader.flag()
        self.constants = (try? JSON(parsing: try reader.data())) ?? .null
    }

    /// Loads the program in a process of its own, which the text may stop or break. Blocks.
    ///
    /// - Throws: `SourceError` with the line.
    func check(in sandbox: Sandbox) throws(SourceError) {
        var process: SandboxProcess
        do throws(SandboxError) { process = try SandboxProcess.started(sandbox) } catch {
            throw SourceError("\(MapperUnavailable("\(error)"))")
        }
        let result = process.exchange(MapperRequest.load(self).bytes)
        if let end = result.end { throw SourceError("map.lua: loading it needs \(sandbox.description(of: end))") }
        if let failure = result.answers.first, !failure.isEmpty {
            throw SourceError(String(decoding: failure.prefix(1000), as: UTF8.self))
        }
    }
}

/// The reason why no process maps, whatever the record.
struct MapperUnavailable: Error, Hashable, CustomStringConvertible {
    let description: String

    init(_ reason: String) {
        self.description =
            "mapper process: \(reason)"
            + (reason.contains("PR_SET_SECCOMP")
                ? ": allow prctl(2) with PR_SET_SECCOMP, or consent to limits without it by WAYBILL_SANDBOX=limits"
                : "")
    }
}

/// A record with what its mapping needs.
struct MapperTask: Sendable {
    let record: KafkaRecord
    /// The schema of its value, for a format with schemas.
    var schema: UInt32?
    /// True if the value of a format with schemas is the event itself, as in a test.
    var isDecoded = false
    /// True to return the event instead of calling the program.
    var wantsEvent = false
    /// The orders of parcels; nil for one that no order has.
    var parcels: [Parcel: ParcelOwner?] = [:]
    /// The processor time that it has taken before, in microseconds.
    var spent: Int64 = 0

    init(_ record: KafkaRecord) { self.record = record }

    func write(to writer: inout SandboxWriter) {
        writer.add(self.record.topic)
        writer.add(Int64(self.record.partition))
        writer.add(self.record.offset)
        writer.add(self.record.timestampMilliseconds)
        writer.add(self.record.key) { $0.add($1) }
        writer.add(self.record.value) { $0.add($1) }
        writer.add(self.record.headers) { writer, header in
            writer.add(header.name)
            writer.add(header.value) { $0.add($1) }
        }
        writer.add(self.schema) { $0.add(Int64($1)) }
        writer.add(self.isDecoded)
        writer.add(self.wantsEvent)
        writer.add(Array(self.parcels)) { writer, parcel in
            writer.add(parcel.key)
            writer.add(parcel.value) { writer, owner in
                writer.add(owner.order)
                writer.add(owner.fulfillment)
                writer.add(owner.brand) { $0.add($1) }
            }
        }
        writer.add(self.spent)
    }

    init(reading reader: inout SandboxReader) throws(SandboxFormatError) {
        let topic = try reader.text()
        let (partition, offset, timestamp) = (try reader.integer(), try reader.integer(), try reader.integer())
        let (key, value) = (try reader.optionalData(), try reader.optionalData())
        let headers = try reader.list(limit: .max) { (reader) throws(SandboxFormatError) in
            KafkaHeader(name: try reader.text(), value: try reader.optionalData())
        }
        self.record = KafkaRecord(
            topic: topic, partition: Int32(truncatingIfNeeded: partition), offset: offset,
            timestampMilliseconds: timestamp, key: key, value: value, headers: headers)
        self.schema = try reader.optional { (reader) throws(SandboxFormatError) in
            UInt32(truncatingIfNeeded: try reader.integer())
        }
        self.isDecoded = try reader.flag()
        self.wantsEvent = try reader.flag()
        let parcels = try reader.list(limit: 2 * Parcel.limit) { (reader) throws(SandboxFormatError) in
            let parcel = try reader.parcel()
            let owner = try reader.optional { (reader) throws(SandboxFormatError) in
                let (order, fulfillment) = (try reader.text(), try reader.text())
                let brand = try reader.optionalText()
                return ParcelOwner(order: order, fulfillment: fulfillment, brand: brand)
            }
            return (parcel, owner)
        }
        for (parcel, owner) in parcels { self.parcels.updateValue(owner, forKey: parcel) }
        self.spent = try reader.integer()
    }
}

/// A request to a mapper process.
enum MapperRequest: Sendable {
    /// Compiles a program; the answer is the failure's text, empty for none.
    case load(MapperProgram)
    /// Maps records with the program of the process; one answer for each.
    ///
    /// - Parameters:
    ///   - program: nil for that of the request before. Another one forgets the schemas, too.
    ///   - schemas: those that the process does not have yet.
    case map(program: MapperProgram?, schemas: [(UInt32, SchemaDocuments)], [MapperTask])
    /// Reads a schema as a registry sent it; the answer is a `SchemaReading.Outcome`.
    case read(SchemaDocuments)
    /// Reads a refusal of a registry; the answer is a `RegistryRefusal`, empty for none.
    case refusal([UInt8])

    var bytes: [UInt8] {
        var writer = SandboxWriter()
        switch self {
        case .load(let program):
            writer.add(UInt8(0))
            program.write(to: &writer)
        case .map(let program, let schemas, let tasks):
            writer.add(UInt8(1))
            writer.add(program) { $1.write(to: &$0) }
            writer.add(schemas) { writer, schema in
                writer.add(Int64(schema.0))
                schema.1.write(to: &writer)
            }
            writer.add(tasks) { $1.write(to: &$0) }
        case .read(let documents):
            writer.add(UInt8(2))
            documents.write(to: &writer)
        case .refusal(let body):
            writer.add(UInt8(3))
            writer.add(body)
        }
        return writer.bytes
    }

    init(reading bytes: [UInt8]) throws(SandboxFormatError) {
        var reader = SandboxReader(bytes)
        switch try reader.byte() {
        case 0: self = .load(try MapperProgram(reading: &reader))
        case 1:
            let program = try reader.optional { (reader) throws(SandboxFormatError) in
                try MapperProgram(reading: &reader)
            }
            let schemas = try reader.list(limit: .max) { (reader) throws(SandboxFormatError) in
                (UInt32(truncatingIfNeeded: try reader.integer()), try SchemaDocuments(reading: &reader))
            }
            let tasks = try reader.list(limit: .max) { (reader) throws(SandboxFormatError) in
                try MapperTask(reading: &reader)
            }
            self = .map(program: program, schemas: schemas, tasks)
        case 2: self = .read(try SchemaDocuments(reading: &reader))
        default: self = .refusal(try reader.data())
        }
    }
}

extension SandboxWriter {
    mutating func add(_ parcel: Parcel) {
        self.add(parcel.carrier)
        self.add(parcel.number)
    }
}

extension SandboxReader {
    mutating func parcel() throws(SandboxFormatError) -> Parcel {
        let (carrier, number) = (try self.text(), try self.text())
        guard let parcel = Parcel(carrier: carrier, number: number) else { throw SandboxFormatError() }
        return parcel
    }

    /// Reads one of the values of a type.
    mutating func choice<Value: RawRepresentable<String>>() throws(SandboxFormatError) -> Value {
        guard let value = Value(rawValue: try self.text()) else { throw SandboxFormatError() }
        return value
    }
}

extension Sandbox {
    /// The mapper process, with the limits that its records have.
    static func mapper(_ wall: SandboxWall, path: String? = nil) -> Sandbox {
        var sandbox = Sandbox(command: MapperChild.command)
        sandbox.wall = wall
        if let path { sandbox.path = path }
        return sandbox
    }

    /// Returns the mapper process of a command, by its environment.
    static func mapperOfCommand() throws -> Sandbox {
        .mapper(try Settings(environment: ProcessInfo.processInfo.environment).sandboxWall())
    }

    /// Says what a record, or the text of a program, needed.
    func description(of end: SandboxEnd) -> String {
        switch end {
        case .time: "more than \(Int(self.time / .milliseconds(1))) ms of processor time"
        case .memory: "more than \(self.memory >> 20) MiB of memory"
        case .gone, .crashed, .absent: "a process that goes on, but \(end)"
        }
    }
}
