import Kafka
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Operations
@testable import Packager

/// Groups of keys that wait, on the embedded broker.
@Suite(.server, .timeLimit(.minutes(2))) struct KeyedWorkerGroupTests {
    private let tests = KeyedWorkerTests()

    private func done(_ fixture: KeyedWorkerTests.Fixture, of group: String) -> Int {
        fixture.done.withLock { $0.filter { $0.key.hasPrefix(group) }.values.reduce(0) { $0 + $1.count } }
    }

    /// More records wait than any buffer holds; another worker joins and leaves meanwhile.
    @Test func aWaitingGroupDelaysNoOtherAndIsLaterProcessedInOrder() async throws {
        let fixture = try KeyedWorkerTests.Fixture(partitions: 4)
        let isThere = Atomic(false)
        let groups: @Sendable () -> [KeyGroup] = {
            let reason = isThere.load(ordering: .relaxed) ? nil : "expired"
            return [KeyGroup(name: "a", awaits: nil), KeyGroup(name: "b", awaits: reason)]
        }
        let limits = KeyQueue.Limits(records: 600, bytes: 200_000, batchKeys: 64, batchBytes: 50_000)
        let works: @Sendable ([KeyedWork]) async -> [KeyedWork.Outcome] = { works in
            fixture.note(works)
            return works.map { _ in .done }
        }
        let environment = try fixture.environment()
        let first = try self.tests.worker(fixture, environment, limits: limits, groups: groups, works)
        try await fixture.fill((0..<6000).map { "b/k\($0 % 40)" })
        try await self.tests.run([first]) {
            try await fixture.fill((0..<20).map { "a/k\($0)" })
            try await eventually("the other group's") { self.done(fixture, of: "a/") == 20 }
            try await eventually("the metric") {
                environment.metrics.text.contains("waybill_waiting_records{brand=\"b\"} 6000.0")
            }
            try await eventually("nothing of it is in hand") {
                environment.metrics.text.contains("waybill_records_in_hand 0.0")
            }
            #expect(environment.readiness.reasons.isEmpty)
            // The worker joins as soon as it is created.
            let second = try self.tests.worker(
                fixture, try fixture.environment(), limits: limits, groups: groups, works)
            try await self.tests.run([second]) {
                // Each worker has to take over partitions that the other had.
                let marks = (0..<200).map { "a/mark\($0)" }
                try await fixture.fill(marks)
                try await eventually("the other group's in the rebalance") {
                    fixture.done.withLock { done in marks.allSatisfy { done[$0] != nil } }
                }
                try await Task.sleep(for: .seconds(5))
            }
            #expect(self.done(fixture, of: "b/") == 0)
            try await fixture.fill((0..<40).map { "b/k\($0)" })
            isThere.store(true, ordering: .relaxed)
            try await eventually("all of it") { self.done(fixture, of: "b/") >= 6040 }
            try await eventually("committed") {
                try await fixture.committed().values.reduce(0, +) == 6040 + 20 + 200
            }
            try await eventually("nothing waits") {
                environment.metrics.text.contains("waybill_waiting_records{brand=\"b\"} 0.0")
            }
        }
        for (key, offsets) in fixture.done.withLock({ $0 }) where key.hasPrefix("b/") {
            // Records that the rebalance repeats may follow.
            var seen: Set<Int64> = []
            let firsts = offsets.filter { seen.insert($0).inserted }
            #expect(firsts == firsts.sorted(), "\(key)")
            #expect(firsts.count == 151, "\(key)")
        }
        #expect(fixture.done.withLock { $0.keys.filter { $0.hasPrefix("b/") }.count } == 40)
    }

    /// A backlog of one group precedes each change of the other, and its keys always fail at first.
    @Test func failingKeysUseOnlyTheirGroupsShare() async throws {
        let fixture = try KeyedWorkerTests.Fixture(partitions: 2)
        let isWell = Atomic(false)
        let limits = KeyQueue.Limits(records: 600, bytes: 200_000, batchKeys: 64, batchBytes: 50_000)
        let environment = try fixture.environment()
        let groups: @Sendable () -> [KeyGroup] = { ["a", "b"].map { KeyGroup(name: $0, awaits: nil) } }
        let worker = try self.tests.worker(fixture, environment, limits: limits, groups: groups) { works in
            let can = isWell.load(ordering: .relaxed)
            fixture.note(works.filter { can || $0.name.hasPrefix("a/") })
            return works.map { can || $0.name.hasPrefix("a/") ? .done : .later(reason: "it cannot be written") }
        }
        try await fixture.fill((0..<3000).map { "b/k\($0)" } + (0..<20).map { "a/k\($0)" }, value: 20)
        try await self.tests.run([worker]) {
            try await eventually("the other group's") { self.done(fixture, of: "a/") == 20 }
            #expect(self.done(fixture, of: "b/") == 0)
            isWell.store(true, ordering: .relaxed)
            try await eventually("all committed") {
                try await fixture.committed().values.reduce(0, +) == 3020
            }
        }
        #expect(self.done(fixture, of: "b/") == 3000)
    }
}
