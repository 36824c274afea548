import Foundation
import Glibc
import TestKit
import TestTraits
import Testing

@testable import Sandbox

/// Children that do what they may not, by `SandboxSubject`.
@Suite(.server) struct SandboxTests {
    private static func sandbox() -> Sandbox {
        var sandbox = Sandbox(command: "subject")
        sandbox.path = Program.built("SandboxSubject")
        sandbox.frame = 1 << 16
        return sandbox
    }

    private static func end(of task: String, _ sandbox: Sandbox = Self.sandbox()) throws -> SandboxEnd? {
        var process = try SandboxProcess.started(sandbox)
        let result = process.exchange(Array("a \(task) b".utf8), answers: 3)
        // The system ends a child without a word if it makes a forbidden call.
        #expect(result.answers == [Array("a!".utf8)] || result.answers.isEmpty)
        #expect(process.exchange(Array("a".utf8)).end == result.end, "it stays ended")
        return result.end
    }

    @Test(arguments: ["open", "connect", "fork", "thread", "signal", "code"])
    func aForbiddenCallEndsTheChild(_ task: String) throws {
        #expect(try Self.end(of: task) == .crashed("its process was ended by signal 31"))
    }

    @Test(arguments: ["spin", "calls"]) func timeEndsAChild(_ task: String) throws {
        #expect(try Self.end(of: task) == .time)
    }

    @Test func aSilentChildIsEnded() throws {
        var sandbox = Self.sandbox()
        sandbox.patience = .milliseconds(300)
        sandbox.time = .seconds(5)
        #expect(try Self.end(of: "drip", sandbox) == .crashed("no answer for 0.3 seconds"))
        #expect(try Self.end(of: "wait", sandbox) == .crashed("no answer for 0.3 seconds"))
    }

    @Test func aChildThatEndedWhileItWasIdleIsNoFaultOfATask() throws {
        var process = try SandboxProcess.started(Self.sandbox())
        #expect(process.exchange(Array("a".utf8)).end == nil)
        kill(process.identifier, SIGKILL)
        var poll = pollfd(fd: process.socket, events: Int16(POLLIN), revents: 0)
        try #require(unsafe Glibc.poll(&poll, 1, 10_000) == 1)
        #expect(process.exchange(Array("a".utf8)).end == .gone)
        // One that answers what nobody asked.
        process = try SandboxProcess.started(Self.sandbox())
        #expect(process.exchange(Array("a b".utf8)).answers.count == 1)
        poll = pollfd(fd: process.socket, events: Int16(POLLIN), revents: 0)
        _ = unsafe Glibc.poll(&poll, 1, 1000)
        #expect(process.exchange(Array("a".utf8)).end != nil)
    }

    @Test func memoryEndsAChild() throws {
        var sandbox = Self.sandbox()
        // A build for tests is slow.
        sandbox.time = .seconds(5)
        #expect(try Self.end(of: "memory", sandbox) == .memory)
    }

    @Test(arguments: ["trap", "deep"]) func aFaultEndsAChild(_ task: String) throws {
        var sandbox = Self.sandbox()
        sandbox.time = .seconds(5)
        let end = try #require(try Self.end(of: task, sandbox))
        #expect("\(end)".hasPrefix("its process was ended by signal "), "\(end)")
    }

    @Test func answersAreBounded() throws {
        for task in ["large", "asks", "ask"] {
            #expect(try Self.end(of: task) == .crashed("its answers are not as agreed"), "\(task)")
        }
    }

    /// Of a batch, the tasks before one that fails are not done again.
    @Test(arguments: ["spin", "memory", "trap"]) func tasksBeforeKeepTheirResults(_ task: String) throws {
        var process = try SandboxProcess.started(Self.sandbox())
        let result = process.exchange(Array("a b \(task) c".utf8), answers: 4)
        #expect(result.answers == [Array("a!".utf8), Array("b!".utf8)])
    }

    @Test func limitsAloneKeepFilesAway() throws {
        var sandbox = Self.sandbox()
        sandbox.wall = .limits
        var process = try SandboxProcess.started(sandbox)
        let result = process.exchange(Array("open connect".utf8), answers: 2)
        #expect(result.answers == [Array("-1".utf8), Array("-1".utf8)])
    }

    @Test func aProgramThatIsNotThereIsNamed() throws {
        var sandbox = Self.sandbox()
        sandbox.path = "/nonexistent"
        let error = #expect(throws: SandboxError.self) { _ = try SandboxProcess.started(sandbox).identifier }
        #expect(error?.description.contains("/nonexistent") == true)
        sandbox.path = "/bin/true"
        #expect(throws: SandboxError.self) { _ = try SandboxProcess.started(sandbox).identifier }
    }

    @Test func aQuestionIsAnswered() async throws {
        let pool = SandboxPool(Self.sandbox(), count: 1) { 0 }
        try await pool.start()
        let answer = await pool.with("a") { worker, _ in
            (true, await worker.exchange(Array("ask".utf8)) { Array("reply \($0.count)".utf8) }.answers)
        }
        #expect(answer == [Array("reply 3".utf8)])
        await pool.close()
    }

    /// A child has few milliseconds of its own, and the sequence of callers is kept.
    @Test func aChildThatEndsIsReplacedAndLeavesNothing() async throws {
        let pool = SandboxPool(Self.sandbox(), count: 2) { Set<Int>() }
        try await pool.start()
        let identifiers = await withTaskGroup(of: Int32?.self) { group in
            for number in 0..<24 {
                group.addTask {
                    await pool.with("owner \(number % 3)") { worker, owners in
                        let identifier = try? await worker.ready()
                        let task = number % 4 == 0 ? "trap" : "fine"
                        let result = await worker.exchange(Array(task.utf8))
                        #expect((result.end == nil) == (task == "fine"))
                        owners.insert(number % 3)
                        #expect(owners.count == 1, "a child works for one owner")
                        return (result.end == nil, identifier)
                    }
                }
            }
            return await group.reduce(into: Set<Int32>()) { if let identifier = $1 { $0.insert(identifier) } }
        }
        #expect(identifiers.count > 6)
        await pool.close()
        for identifier in identifiers { #expect(kill(identifier, 0) != 0, "\(identifier) is still there") }
    }

    /// Other suites open descriptors meanwhile, so this looks for the socket itself.
    @Test(arguments: ["fine", "trap", "open"]) func aSocketIsClosedWithItsChild(_ task: String) throws {
        var name = ""
        func use() throws {
            var process = try SandboxProcess.started(Self.sandbox())
            name = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(process.socket)")
            #expect(try Self.sockets().contains(name))
            #expect((process.exchange(Array(task.utf8)).end == nil) == (task == "fine"))
        }
        try use()
        #expect(name.hasPrefix("socket:"))
        #expect(try !Self.sockets().contains(name))
    }

    private static func sockets() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { descriptor in
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(descriptor)")
        }
    }

    @Test func valuesAreReadAsTheyWereWritten() throws {
        var writer = SandboxWriter()
        writer.add(Int64(-5))
        writer.add("text")
        writer.add(UInt8(7))
        writer.add([1, 2] as [Int64]) { $0.add($1) }
        writer.add(nil as String?) { $0.add($1) }
        writer.add("there") { $0.add($1) }
        func read(_ reader: inout SandboxReader) throws -> Bool {
            guard try reader.integer() == -5, try reader.text() == "text", try reader.byte() == 7 else { return false }
            let numbers = try reader.list(limit: 2) { (reader) throws(SandboxFormatError) in try reader.integer() }
            let texts = [try Self.optionalText(&reader), try Self.optionalText(&reader)]
            return numbers == [1, 2] && texts == [nil, "there"]
        }
        var reader = SandboxReader(writer.bytes)
        #expect(try read(&reader))
        #expect(reader.isAtEnd)
        for count in 0..<writer.bytes.count {
            var part = SandboxReader(Array(writer.bytes.prefix(count)))
            #expect(throws: SandboxFormatError.self) { _ = try read(&part) }
        }
    }

    private static func optionalText(_ reader: inout SandboxReader) throws(SandboxFormatError) -> String? {
        try reader.optional { (reader) throws(SandboxFormatError) in try reader.text() }
    }

    @Test func framesAreTakenAsTheyCome() {
        var whole: [UInt8] = []
        for count in [0, 1, 300] { whole += FrameReader.frame([UInt8](repeating: 7, count: count), .question) }
        var reader = FrameReader(limit: 300)
        var counts: [Int] = []
        for byte in whole {
            reader.add([byte])
            while let frame = reader.next() { counts.append(frame.content.count) }
        }
        #expect(counts == [0, 1, 300])
        reader.add(FrameReader.head(301, .answer))
        #expect(reader.next() == nil)
        #expect(reader.isBroken)
    }
}
