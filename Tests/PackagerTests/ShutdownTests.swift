import Glibc
import TestKit
import TestTraits
import Testing

@testable import Packager

/// SIGTERM while something never ends.
@Suite(.server) struct ShutdownTests {
    /// A thread hangs forever, as a thread of librdkafka may while it closes.
    @Test(.timeLimit(.minutes(2))) func aHungWorkerExitsWithinTheShutdownTimeout() async throws {
        try await CrashFixture.run { fixture in
            var history = CrashHistory(seed: 9)
            let worker = try fixture.worker([
                "WAYBILL_STALL_AT": "folded:1:600", "WAYBILL_SHUTDOWN_SECONDS": "3",
            ])
            try await worker.line(containing: "assigned")
            try await fixture.publish(history.each(.replaced(number: "first")))
            // Once it has read the states, it has the batch in hand: nothing else makes it look for this order.
            try await eventually("read") {
                try await fixture.server.command("INFO", "commandstats").contains("cmdstat_hmget:")
            }
            let start = ContinuousClock.now
            worker.signal(SIGTERM)
            #expect(try await worker.exit(within: .seconds(30)) == .code(1))
            let took = ContinuousClock.now - start
            #expect(took >= .seconds(2), "\(took)")
            #expect(took < .seconds(8), "\(took)")
            #expect(worker.output.contains("shutdown timed out, exiting"))
            // The next worker gets the work that this one had in hand.
            let next = try fixture.worker()
            try await fixture.caughtUp(next)
            #expect(await next.stop(grace: .seconds(20)) == .code(0))
            try await fixture.expectSame(as: history.log, repeats: 1)
        }
    }
}
