import TestKit
import TestTraits
import Testing

/// The broker that the tests use.
@Suite(.server, .timeLimit(.minutes(1))) struct KafkaBrokerTests {
    @Test func theBrokerRestartsWhileChildProcessesStart() async throws {
        let broker = try KafkaBroker()
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for _ in 0..<4 {
                tasks.addTask { while !Task.isCancelled { try await ChildProcess.run("true", []) } }
            }
            for _ in 0..<60 {
                try broker.setDown()
                try broker.setUp()
                await Task.yield()
            }
            tasks.cancelAll()
            while let ended = await tasks.nextResult() {
                if case .failure(let error) = ended, !(error is CancellationError) { throw error }
            }
        }
        broker.close()
    }

    @Test func aRequestedPortMustBeFree() throws {
        let reserved = try ReservedPort()
        let number = UInt16(truncatingIfNeeded: reserved.number)
        reserved.release()
        let broker = try KafkaBroker(port: number)
        #expect(broker.bootstrap == "127.0.0.1:\(number)")
        #expect(throws: ReservedPort.Failure.self) { try KafkaBroker(port: number) }
        broker.close()
    }
}
