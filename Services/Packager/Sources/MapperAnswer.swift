import Lua
import Model
import Sandbox

/// The answer of a mapper process for one record. Nothing in it is trusted: all is bounded, and a change is made of it
/// by `SourceMapping`.
struct MapperAnswer: Sendable {
    enum Outcome: Sendable {
        case ignored(IgnoredRecord)
        case refused(ChangeFault)
        /// The program asks for the orders of parcels; the fault if there are none.
        case wanted([Parcel], ChangeFault)
        /// The value that `map` returned, as JSON.
        case result([UInt8])
        /// The event, as JSON, instead of what becomes of it.
        case event([UInt8])
        /// The record was not begun, since those before it took long.
        case later
    }

    var outcome: Outcome
    /// Words that tables do not know.
    var unknown: [UnknownValue] = []
    /// Counts the faults of the record's JSON that were mended.
    var foreign = ForeignJSON()
    /// True for a row that was there before the changes, as of Debezium's snapshot.
    var isSnapshot = false
    /// The trace of a CloudEvent: `traceparent`, `tracestate`.
    var trace: [String] = []
    /// The processor time, in microseconds.
    var spent: Int64 = 0

    /// The most values and parcels of an answer, and the most bytes of a text.
    private static let countLimit = 64
    private static let textLimit = 4096

    init(_ outcome: Outcome) { self.outcome = outcome }

    init(_ fault: ChangeFault) { self.outcome = .refused(fault) }

    var bytes: [UInt8] {
        var writer = SandboxWriter()
        switch self.outcome {
        case .ignored(let kind):
            writer.add(UInt8(0))
            writer.add(kind.rawValue)
        case .refused(let fault):
            writer.add(UInt8(1))
            writer.add(fault)
        case .wanted(let parcels, let fault):
            writer.add(UInt8(2))
            writer.add(parcels.prefix(Self.countLimit)) { $0.add($1) }
            writer.add(fault)
        case .result(let value):
            writer.add(UInt8(3))
            writer.add(value)
        case .event(let event):
            writer.add(UInt8(4))
            writer.add(event)
        case .later: writer.add(UInt8(5))
        }
        writer.add(self.unknown.prefix(Self.countLimit)) { writer, value in
            writer.add(value.table)
            writer.add(value.value)
        }
        writer.add(Int64(self.foreign.loneSurrogates))
        writer.add(Int64(self.foreign.repeatedMembers))
        writer.add(self.isSnapshot)
        writer.add(self.trace) { $0.add($1) }
        writer.add(self.spent)
        return writer.bytes
    }

    init(reading bytes: [UInt8]) throws(SandboxFormatError) {
        var reader = SandboxReader(bytes)
        switch try reader.byte() {
        case 0: self.outcome = .ignored(try reader.choice())
        case 1: self.outcome = .refused(try reader.fault())
        case 2:
            let parcels = try reader.list(limit: Self.countLimit) { (reader) throws(SandboxFormatError) in
                try reader.parcel()
            }
            self.outcome = .wanted(parcels, try reader.fault())
        case 3: self.outcome = .result(try reader.data())
        case 4: self.outcome = .event(try reader.data())
        case 5: self.outcome = .later
        default: throw SandboxFormatError()
        }
        self.unknown = try reader.list(limit: Self.countLimit) { (reader) throws(SandboxFormatError) in
            UnknownValue(table: try reader.text(most: 256), value: try reader.text(most: Self.textLimit))
        }
        let counts = 0...Int64(JSON.entryLimit)
        let (surrogates, members) = (try reader.integer(), try reader.integer())
        guard counts.contains(surrogates), counts.contains(members) else { throw SandboxFormatError() }
        self.foreign = ForeignJSON(loneSurrogates: Int(surrogates), repeatedMembers: Int(members))
        self.isSnapshot = try reader.flag()
        self.trace = try reader.list(limit: 2) { (reader) throws(SandboxFormatError) in
            try reader.text(most: Self.textLimit)
        }
        self.spent = min(max(0, try reader.integer()), 10_000_000)
        guard reader.isAtEnd else { throw SandboxFormatError() }
    }
}

extension SandboxWriter {
    fileprivate mutating func add(_ fault: ChangeFault) {
        self.add(fault.code.rawValue)
        self.add(fault.reason)
    }
}

extension SandboxReader {
    fileprivate mutating func fault() throws(SandboxFormatError) -> ChangeFault {
        let code: ChangeFault.Code = try self.choice()
        guard code.isOfSource else { throw SandboxFormatError() }
        return ChangeFault(code: code, reason: try self.text(most: 1 << 16))
    }

    fileprivate mutating func text(most limit: Int) throws(SandboxFormatError) -> String {
        let text = try self.text()
        guard text.utf8.count <= limit else { throw SandboxFormatError() }
        return text
    }
}

/// The work of a mapper process on a record.
extension MapperAnswer {
    init(_ task: MapperTask, _ loaded: LoadedProgram, schemas: [UInt32: Result<AvroSchema, ChangeFault>]) {
        do throws(ChangeFault) {
            self = try Self.answer(task, loaded, schemas)
        } catch {
            self.init(error)
        }
    }

    private static func answer(
        _ task: MapperTask, _ loaded: LoadedProgram, _ schemas: [UInt32: Result<AvroSchema, ChangeFault>]
    ) throws(ChangeFault) -> MapperAnswer {
        let program = loaded.program
        var event = try SourceEvent(
            task.record, format: program.format, schemas: schemas, isDecoded: task.isDecoded,
            unavailable: program.unavailable, repeated: program.repeated)
        var answer = MapperAnswer(.later)
        answer.isSnapshot = event.isSnapshot
        let isLeftOut = event.isDeletion && !program.takesDeletions
        if task.wantsEvent {
            try event.read()
            answer.outcome = .event(event.event.serialized)
        } else if let kind = event.passedOver ?? (isLeftOut ? .deletion : nil) {
            answer.outcome = .ignored(kind)
        } else {
            try loaded.run(&event, task, &answer)
        }
        answer.foreign = event.foreign
        answer.trace =
            TraceContext(event: event.event, headers: []).map { [$0.traceparent] + ($0.tracestate.map { [$0] } ?? []) }
            ?? []
        return answer
    }
}

/// A program in the process that runs it.
struct LoadedProgram {
    let program: MapperProgram
    private let lua: LuaProgram

    /// - Throws: `LuaFailure` with the line.
    init(_ program: MapperProgram) throws(LuaFailure) {
        self.program = program
        self.lua = try LuaProgram(program.text, limits: program.limits, minorUnits: program.minorUnits)
    }

    /// - Parameter event: read if its text has a fault, which is mended or refused there, or names a trace.
    fileprivate func run(
        _ event: inout SourceEvent, _ task: MapperTask, _ answer: inout MapperAnswer
    ) throws(ChangeFault) {
        let (facts, constants) = (SourceEvent.facts(of: task.record), self.program.constants)
        var result: Result<LuaProgram.Result?, LuaFailure> = .success(nil)
        if let text = event.text {
            result = Result { () throws(LuaFailure) in
                try self.lua.map(text: text.bytes, record: facts, constants: constants, parcels: task.parcels)
            }
            if case .success(let found) = result, found?.isTraced != false { try event.read() }
        }
        if case .success(nil) = result {
            let value = event.event
            result = Result { () throws(LuaFailure) in
                try self.lua.map(value, record: facts, constants: constants, parcels: task.parcels)
            }
        }
        do throws(LuaFailure) {
            guard let found = try result.get() else { return }
            answer.unknown = found.unknown
            answer.outcome = .result(found.text)
        } catch {
            let code: ChangeFault.Code =
                switch error.kind {
                case .failed: .mapFailed
                case .limited: .mapLimit
                case .inexact: .mapInexact
                case .unknownParcel: .mapUnknownAlias
                }
            let fault = ChangeFault(code: code, reason: error.message)
            let wanted = error.parcels.filter { task.parcels[$0] == nil }
            answer.outcome = wanted.isEmpty ? .refused(fault) : .wanted(wanted, fault)
        }
    }
}
