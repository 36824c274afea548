import Foundation
import Glibc
import Kafka
import Model
import Operations
import ServiceLifecycle
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// A Redis that accepts connections and never answers, under load.
@Suite(.server) struct SilentRedisTests {
    private func changes(_ range: Range<Int>) -> [(type: String, order: String, id: String, data: JSON?)] {
        range.map { number in
            number < 100
                ? ("order.replaced", "o\(number)", "\(number)", ChangeLog.document())
                : ("fulfillment.updated", "o\(number % 100)", "\(number)", ChangeLog.fulfillment("f\(number / 100)"))
        }
    }

    private func gauge(_ member: Fleet.Member, _ name: String) -> Double {
        for line in member.metrics.text.split(separator: "\n") where line.hasPrefix("\(name) ") {
            return Double(line.dropFirst(name.utf8.count + 1)) ?? -1
        }
        return 0
    }

    @Test(.timeLimit(.minutes(2))) func aSilentRedisBoundsRecordsInHandAndLosesNone() async throws {
        try await Fleet.run { fleet in
            let limits = KeyQueue.Limits(records: 500, bytes: 1 << 20, batchKeys: 64, batchBytes: 256 << 10)
            let member = try fleet.member(limits: limits)
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask { try await member.group.run() }
                try await fleet.publish(self.changes(0..<100))
                try await fleet.settle()
                fleet.server.signal(SIGSTOP)
                try await fleet.publish(self.changes(100..<6000))
                // As much is in hand as allowed, and no more however long it lasts.
                try await eventually("full") { self.gauge(member, "waybill_records_in_hand") >= 500 }
                try await eventually("said") {
                    member.environment.readiness.remarks.contains { $0.hasPrefix("upstreams") }
                }
                #expect(member.environment.readiness.reasons.isEmpty, "another worker could do no more")
                for _ in 0..<20 {
                    #expect(self.gauge(member, "waybill_records_in_hand") <= 500)
                    #expect(self.gauge(member, "waybill_bytes_in_hand") <= Double(1 << 20))
                    try await Task.sleep(for: .milliseconds(50))
                }
                fleet.server.signal(SIGCONT)
                try await fleet.settle()
                #expect(!member.environment.readiness.remarks.contains { $0.hasPrefix("upstreams") })
                await member.group.triggerGracefulShutdown()
                try await tasks.waitForAll()
            }
            for number in 0..<100 {
                let order = try await OrderStore(redis: fleet.redis).orders([try ChangeLog.key("o\(number)")])[0].get()
                #expect(order?.state.document.members["fulfillments"]?.array?.count == 59, "o\(number)")
            }
            #expect(try await fleet.admin.endOffsets(fleet.topics.deadLetters).values.reduce(0, +) == 0)
        }
    }

    @Test(.timeLimit(.minutes(2))) func aWorkerExitsInTimeOnASilentRedisAndTheNextFinishesItsWork() async throws {
        try await CrashFixture.run { fixture in
            var history = CrashHistory(seed: 10)
            let worker = try fixture.worker(["WAYBILL_SHUTDOWN_SECONDS": "15"])
            try await fixture.publish(history.part())
            try await fixture.caughtUp(worker)
            fixture.server.signal(SIGSTOP)
            try await fixture.publish(history.part(200))
            try await worker.line(containing: "keys are waiting for a retry")
            let start = ContinuousClock.now
            worker.signal(SIGTERM)
            #expect(try await worker.exit(within: .seconds(30)) == .code(0))
            #expect(ContinuousClock.now - start < .seconds(15))
            fixture.server.signal(SIGCONT)
            let next = try fixture.worker()
            try await fixture.caughtUp(next)
            #expect(await next.stop(grace: .seconds(20)) == .code(0))
            try await fixture.expectSame(as: history.log, repeats: 1)
        }
    }
}
