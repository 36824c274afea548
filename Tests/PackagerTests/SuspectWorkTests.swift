import Foundation
import Glibc
import Kafka
import Model
import Operations
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// The batches that a worker hands out after others ended.
@Suite struct SuspectQueueTests {
    private static let now = ContinuousClock.now
    private let driver = KeyQueueDriver(
        limits: KeyQueue.Limits(records: 1000, bytes: 1 << 20, batchKeys: 2, batchBytes: 4096), examines: true)

    private func record(_ key: UInt8, _ offset: Int64) -> KafkaRecord {
        KafkaRecord(topic: "t", partition: 0, offset: offset, timestampMilliseconds: 0, key: [key], value: [])
    }

    private func suspects(
        _ keys: [UInt8], _ beginnings: [UInt8: Int] = [:]
    ) -> [SuspectKeys.Digest: SuspectKeys.Beginnings] {
        Dictionary(
            uniqueKeysWithValues: keys.map {
                (SuspectKeys.Digest([$0]), SuspectKeys.Beginnings(place: "t/0/\($0)", count: beginnings[$0] ?? 0))
            })
    }

    private func shown(_ batch: (works: [KeyedWork], isAlone: Bool)?) -> String {
        let works = (batch?.works ?? []).map { work in
            "\(work.key?.first ?? 0):" + work.records.map { "\($0.offset)" }.joined(separator: ",")
        }
        return (batch?.isAlone == true ? "alone " : "") + works.joined(separator: " ")
    }

    private func done(_ batch: (works: [KeyedWork], isAlone: Bool)?) {
        let works = batch?.works ?? []
        _ = self.driver.complete(works, works.map { _ in .done }, now: Self.now) { _ in .zero }
    }

    @Test func nothingIsHandedOutBeforeTheMarksWereRead() async {
        self.driver.add([self.record(1, 1)], now: Self.now)
        async let first = self.driver.next()
        let assignment = self.driver.unexamined ?? 0
        self.driver.assigned()
        // Partitions came while the marks were read.
        _ = self.driver.learn([:], after: assignment, now: Self.now)
        #expect(self.driver.unexamined == assignment + 1)
        _ = self.driver.learn(self.suspects([1]), after: assignment + 1, now: Self.now)
        #expect(self.driver.unexamined == nil)
        #expect(self.shown(await first) == "alone 1:1", "known by then")
    }

    @Test func eachRecordOfASuspectIsAloneAndTheOneThatEndedWorkersIsFirst() async {
        self.driver.add([1, 2, 3, 4].map { self.record($0, Int64($0)) } + [self.record(2, 5)], now: Self.now)
        _ = self.driver.learn(self.suspects([2, 3], [3: 1]), after: 1, now: Self.now)
        let others = await self.driver.next()
        #expect(self.shown(others) == "1:1 4:4")
        async let waiting = self.driver.next()
        self.driver.add([self.record(6, 6)], now: Self.now)
        self.done(others)
        let first = await waiting
        #expect(self.shown(first) == "alone 3:3")
        self.done(first)
        let second = await self.driver.next()
        #expect(self.shown(second) == "alone 2:2")
        self.done(second)
        let third = await self.driver.next()
        #expect(self.shown(third) == "6:6")
        self.done(third)
        #expect(self.shown(await self.driver.next()) == "alone 2:5")
    }
}

/// A record that ends each worker that takes it.
@Suite(.server) struct PoisonRecordTests {
    /// In the value of one change.
    private static let poison = "this one ends workers"

    private func number(of name: String, _ store: OrderStore) async throws -> String? {
        let order = try await store.orders([try ChangeLog.key(name)])[0].get()
        return order?.state.document.members["orderNumber"]?.string
    }

    @Test(.timeLimit(.minutes(4))) func itBecomesADeadLetterAndStopsNoOther() async throws {
        try await CrashFixture.run { fixture in
            let trap = ["WAYBILL_TRAP_AT": Self.poison, "SWIFT_BACKTRACE": "enable=no"]
            // Several in each partition, before and after it, and others of its order.
            let names = (0..<60).map { "o\($0)" }
            var history = CrashHistory(seed: 7)
            try await fixture.publish(history.each(.replaced(number: "1"), of: names))
            try await fixture.publish(history.each(.replaced(number: Self.poison), of: ["o7"]))
            try await fixture.publish(history.each(.replaced(number: "2"), of: names))
            var deaths = 0
            var worker = try fixture.worker(trap)
            while try await !fixture.caughtUpOrDied(worker) {
                deaths += 1
                try #require(deaths <= 4, "\(worker.tail)")
                #expect(worker.exit != .code(0))
                worker = try fixture.worker(trap)
            }
            #expect(deaths == 4, "one with others in work, and three alone")
            let letters = try await fixture.published()[fixture.topics.deadLetters] ?? []
            #expect(letters.compactMap { $0.headers.text(.error) } == ["worker-ended"])
            let letter = try #require(letters.first)
            #expect(letter.headers.text(.origin)?.hasPrefix("\(fixture.topics.orderChanges)/") == true)
            #expect(letter.headers.text(.reason)?.contains("replay") == true)
            #expect(letter.value.map { String(decoding: $0, as: UTF8.self) }?.contains(Self.poison) == true)
            let store = OrderStore(redis: fixture.redis)
            for name in names {
                #expect(try await self.number(of: name, store) == "2", "\(name)")
            }
            #expect(await worker.stop() == .code(0))
            #expect(try await fixture.server.command("EXISTS", "waybill:1:work:{\(Packager.group)}") == "0")
            // Its cause is mended.
            let mended = try fixture.worker()
            try await fixture.caughtUp(mended)
            try await fixture.command(["dead-letters", "replay", "--yes"])
            try await fixture.caughtUp(mended)
            #expect(try await self.number(of: "o7", store) == Self.poison)
            #expect(await mended.stop() == .code(0))
        }
    }

    /// A worker that is killed from outside accuses none.
    @Test(.timeLimit(.minutes(3))) func killedWorkersMakeNoDeadLetter() async throws {
        try await CrashFixture.run { fixture in
            let names = (0..<40).map { "o\($0)" }
            var history = CrashHistory(seed: 8)
            for round in 0..<4 {
                let before = try await fixture.published()[fixture.topics.orders]?.count ?? 0
                let worker = try fixture.worker()
                try await fixture.publish(history.each(.replaced(number: "\(round)"), of: names))
                try await eventually("some of them are published") {
                    try await fixture.published()[fixture.topics.orders]?.count ?? 0 > before
                }
                worker.signal(SIGKILL)
                #expect(try await worker.exit(within: .seconds(60)) == .signal(SIGKILL))
            }
            let worker = try fixture.worker()
            try await fixture.caughtUp(worker)
            #expect(await worker.stop() == .code(0))
            #expect(try await fixture.published()[fixture.topics.deadLetters] == nil)
        }
    }
}
