import Lua
import Model
import Sandbox

/// Maps records of sources: in a process of its own for each source.
protocol RecordMapper: Sendable {
    /// - Returns: answers for the first records, at least one; the others are to be given again.
    /// - Throws: `MapperUnavailable` if no process can be started.
    func map(_ tasks: [MapperTask], _ source: Source) async throws(MapperUnavailable) -> [MapperAnswer]
}

/// The mapper processes, as the parent sees them.
final class Mapper: RecordMapper {
    /// The times that a record is given again, alone, whose process ended.
    private static let repetitions = 2
    private static let patience = Duration.seconds(1)
    /// The most processes that ended while they had nothing to do, for one request.
    private static let goneLimit = 100

    /// The program and the schemas that a process was told.
    private struct Memory: Sendable {
        var program: Int64?
        var schemas: Set<UInt32> = []
        var bytes = 0

        /// The most bytes of schemas that a process is told; then it is told all anew.
        private static let limit = 2 << 20

        /// Returns the request for records, with the program and the schemas that the process does not have.
        mutating func request(_ tasks: [MapperTask], _ source: Source) -> [UInt8] {
            var program: MapperProgram?
            if self.program != source.program.identity || self.bytes > Self.limit {
                program = source.program
                self = Memory(program: source.program.identity)
            }
            var schemas: [(UInt32, SchemaDocuments)] = []
            for identifier in tasks.compactMap(\.schema) where !self.schemas.contains(identifier) {
                guard let documents = source.registry?.stored(identifier) else { continue }
                self.schemas.insert(identifier)
                self.bytes += documents.size
                schemas.append((identifier, documents))
            }
            return MapperRequest.map(program: program, schemas: schemas, tasks).bytes
        }
    }

    private let sandbox: Sandbox
    private let pool: SandboxPool<Memory>

    /// - Parameter count: the most processes, besides one that is ready.
    init(_ sandbox: Sandbox, count: Int) {
        self.sandbox = sandbox
        self.pool = SandboxPool(sandbox, count: count) { Memory() }
    }

    func start() async throws(MapperUnavailable) {
        do throws(SandboxError) { try await self.pool.start() } catch { throw MapperUnavailable("\(error)") }
    }

    func close() async { await self.pool.close() }

    /// A record at which the process ends for want of time or memory has its answer. One at which it ends otherwise is
    /// given again, alone: those before it may be at fault, or nobody.
    func map(_ tasks: [MapperTask], _ source: Source) async throws(MapperUnavailable) -> [MapperAnswer] {
        var answers: [MapperAnswer] = []
        var (isAlone, ends, gone) = (false, 0, 0)
        let late = ContinuousClock.now + Self.patience
        while answers.count < tasks.count {
            // Records that end their processes leave the others to the next request.
            if !answers.isEmpty, .now > late { return answers }
            let rest = Array(isAlone ? tasks[answers.count...].prefix(1) : tasks[answers.count...])
            let (found, end) = await self.answers(to: rest, source)
            for answer in found {
                if case .later = answer.outcome { return answers }
                answers.append(answer)
            }
            if !found.isEmpty { ends = 0 }
            switch end {
            case nil: break
            case .absent(let reason)?: throw MapperUnavailable(reason)
            case (.gone)?:
                gone += 1
                if gone > Self.goneLimit { throw MapperUnavailable("each one ends before its first record") }
            case (.time)?, (.memory)?: answers.append(self.answer(.mapLimit, source, end))
            case .crashed?:
                ends += isAlone ? 1 : 0
                isAlone = true
                guard ends == Self.repetitions else { continue }
                answers.append(self.answer(.mapCrashed, source, end))
                ends = 0
            }
        }
        return answers
    }

    private func answer(_ code: ChangeFault.Code, _ source: Source, _ end: SandboxEnd?) -> MapperAnswer {
        let what = end.map { self.sandbox.description(of: $0) } ?? ""
        return MapperAnswer(ChangeFault(code: code, reason: "the record needs \(what)"))
    }

    private func answers(
        to tasks: [MapperTask], _ source: Source
    ) async -> (found: [MapperAnswer], end: SandboxEnd?) {
        await self.pool.with(source.name) { worker, memory in
            let result = await worker.exchange(
                memory.request(tasks, source), answers: tasks.count, answering: Self.zone)
            var found: [MapperAnswer] = []
            do {
                for answer in result.answers { found.append(try MapperAnswer(reading: answer)) }
            } catch {
                return (false, (found, .crashed("its answers are not as agreed")))
            }
            return (result.end == nil, (found, result.end))
        }
    }

    /// Answers a process that asks for a zone's file.
    @Sendable private static func zone(_ name: [UInt8]) -> [UInt8] {
        TimeZoneFile.content(of: String(decoding: name.prefix(100), as: UTF8.self)) ?? []
    }

    /// Reads a schema as its registry sent it.
    func read(_ documents: SchemaDocuments, of owner: String) async throws(MapperUnavailable) -> SchemaReading.Outcome {
        let (bytes, end) = await self.answer(to: .read(documents), owner)
        if case .absent(let reason)? = end { throw MapperUnavailable(reason) }
        if let bytes, let outcome = try? SchemaReading.Outcome(reading: bytes) { return outcome }
        return .missing("reading it needs \(end.map { self.sandbox.description(of: $0) } ?? "")")
    }

    /// Reads the refusal of a registry; nil if it is none.
    func refusal(_ body: [UInt8], of owner: String) async -> RegistryRefusal? {
        await self.answer(to: .refusal(body), owner).bytes.flatMap { try? RegistryRefusal(reading: $0) }
    }

    private func answer(to request: MapperRequest, _ owner: String) async -> (bytes: [UInt8]?, end: SandboxEnd?) {
        var (answer, end): ([UInt8]?, SandboxEnd?) = (nil, .gone)
        for _ in 0..<Self.goneLimit where end == .gone {
            (answer, end) = await self.pool.with(owner) { worker, _ in
                let result = await worker.exchange(request.bytes)
                return (result.end == nil, (result.answers.first, result.end))
            }
        }
        return (answer, end)
    }
}
