import Lua
import Model
import Sandbox

/// A mapper process, which the role and the commands of `ingest` start.
enum MapperChild {
    static let command = "mapper"

    /// Closes the wall, and maps until the parent ends.
    ///
    /// - Parameter limits: those of `Sandbox`.
    static func serve(_ limits: String) -> Never {
        var work = MapperWork()
        TimeZoneFile.read { name in
            let file = SandboxChild.ask(Array(name.utf8))
            return file.isEmpty ? nil : file
        }
        SandboxChild.serve(limits) { work.answer($1, &$0) }
    }
}

/// The work of a mapper process: one program, and the schemas of its records.
private struct MapperWork {
    /// The processor time after which the rest of a request is left for another one, in microseconds: others wait for
    /// this process, too.
    private static let turn: Int64 = 50_000

    private var loaded: Result<LoadedProgram, ChangeFault> = .failure(
        ChangeFault(code: .mapFailed, reason: "there is no program"))
    private var schemas: [UInt32: Result<AvroSchema, ChangeFault>] = [:]

    /// Answers a request of the parent, whose form is as agreed.
    mutating func answer(_ bytes: [UInt8], _ child: inout SandboxChild) {
        child.begin()
        guard let request = try? MapperRequest(reading: bytes) else { return }
        switch request {
        case .load(let program):
            do throws(LuaFailure) {
                _ = try LoadedProgram(program)
                child.answer([])
            } catch {
                child.answer(Array(error.message.utf8))
            }
        case .map(let program, let schemas, let tasks):
            self.take(program, schemas)
            self.map(tasks, &child)
        case .read(let documents): child.answer(SchemaReading.outcome(documents).bytes)
        case .refusal(let body): child.answer(RegistryRefusal(parsing: body)?.bytes ?? [])
        }
    }

    private mutating func take(_ program: MapperProgram?, _ schemas: [(UInt32, SchemaDocuments)]) {
        if let program {
            self.schemas = [:]
            self.loaded = Result { () throws(LuaFailure) in try LoadedProgram(program) }.mapError {
                ChangeFault(code: .mapFailed, reason: $0.message)
            }
        }
        for (identifier, documents) in schemas {
            self.schemas[identifier] =
                if case .schema(let schema) = SchemaReading.read(documents) { .success(schema) } else {
                    .failure(ChangeFault(code: .mapSchemaMissing, reason: "schema \(identifier) cannot be read"))
                }
        }
    }

    private func map(_ tasks: [MapperTask], _ child: inout SandboxChild) {
        let start = child.used
        for task in tasks {
            let before = child.used
            guard before - start < Self.turn else {
                child.answer(MapperAnswer(.later).bytes)
                continue
            }
            child.begin(spent: task.spent)
            var answer: MapperAnswer
            switch self.loaded {
            case .success(let loaded): answer = MapperAnswer(task, loaded, schemas: self.schemas)
            case .failure(let fault): answer = MapperAnswer(fault)
            }
            answer.spent = child.used - before
            child.answer(answer.bytes)
        }
    }
}
