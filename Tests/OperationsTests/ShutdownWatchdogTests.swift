import Logging
import ServiceLifecycle
import Synchronization
import Testing

@testable import Operations

@Suite struct ShutdownWatchdogTests {
    /// A service that ignores every request to stop until it is released.
    private final class Endless: Service {
        private let waiting = Mutex<CheckedContinuation<Void, Never>?>(nil)
        let ended = Mutex<ContinuousClock.Instant?>(nil)
        let begun = AsyncStream.makeStream(of: Void.self)

        func run() async throws {
            await withCheckedContinuation { continuation in
                self.waiting.withLock { $0 = continuation }
                self.begun.continuation.yield()
            }
        }
        func letGo() {
            self.ended.withLock { $0 = .now }
            self.waiting.withLock { $0 }?.resume()
        }
    }

    private struct Failing: Service {
        struct Failure: Error {}
        let after: AsyncStream<Void>
        func run() async throws {
            for await _ in self.after { throw Failure() }
        }
    }

    @Test(.timeLimit(.minutes(1)), arguments: [false, true])
    func aServiceThatNeverEndsIsAbandonedAtTheLimit(_ fails: Bool) async throws {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let endless = Endless()
        let end = ShutdownWatchdog(limit: .seconds(1), logger: logger) { endless.letGo() }
        let failing: [any Service] = fails ? [Failing(after: endless.begun.stream)] : []
        var configuration = ServiceGroupConfiguration(
            services: ([endless] + failing + [end]).map { .init(service: $0) }, logger: logger)
        configuration.maximumGracefulShutdownDuration = ShutdownWatchdog.patience(of: .seconds(1))
        let group = ServiceGroup(configuration: configuration)
        let start = ContinuousClock.now
        await withTaskGroup { tasks in
            tasks.addTask { try? await group.run() }
            if !fails {
                for await _ in endless.begun.stream { break }
                #expect(endless.ended.withLock { $0 } == nil)
                await group.triggerGracefulShutdown()
            }
        }
        let ended = try #require(endless.ended.withLock { $0 })
        #expect(ended - start >= .seconds(1))
    }

    @Test func theShutdownLimitReservesTimeForCancellation() {
        #expect(ShutdownWatchdog.patience(of: .seconds(20)) == .seconds(18))
        #expect(ShutdownWatchdog.patience(of: .seconds(1)) == .milliseconds(900))
        #expect(ShutdownWatchdog.patience(of: .seconds(600)) == .seconds(598))
    }
}
