import TestKit
import TestTraits
import Testing

@testable import Kafka

/// Single records of which some cannot be read.
@Suite(.server, .timeLimit(.minutes(1))) struct UnreadableRecordTests {
    /// Runs a test with a filled topic, one of whose partitions has no leader.
    private func withDeadPartition(
        _ count: Int, patience: Duration, _ body: (KafkaBroker, KafkaReader) async throws -> Void
    ) async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: count)])
        for partition in 0..<count { try await fill(broker, "orders", 10, partition: Int32(partition)) }
        try broker.setLeader(of: "orders", partition: 1, exists: false)
        let reader = try KafkaReader(ofSingleRecords: configuration(broker), patience: patience)
        do { try await body(broker, reader) } catch { Issue.record(error) }
        await reader.close()
        broker.close()
    }

    @Test func aPartitionWithoutALeaderFailsItsOwnReadsAlone() async throws {
        try await self.withDeadPartition(20, patience: .seconds(12)) { _, reader in
            let places = (0..<100).map { (partition: Int32($0 * 7 % 20), offset: Int64($0 / 20)) }
            let began = ContinuousClock.now
            let found = await reader.records(of: "orders", at: places)
            #expect(ContinuousClock.now - began < .seconds(24), "one deadline for all of them")
            for (place, result) in zip(places, found) {
                if place.partition == 1 {
                    let error = #expect(throws: KafkaError(.timedOut, "")) { try result.get() }
                    #expect(error?.message.contains("orders/1") == true)
                    #expect(error?.message.contains("the partition has no leader") == true, "\(error?.message ?? "")")
                } else {
                    let record = try result.get()
                    #expect(record?.offset == place.offset)
                }
            }
        }
    }

    /// Nobody waits for a call that waits.
    @Test func otherCallsGoOnAndTheNextOnesOfThePartitionFailAtOnce() async throws {
        try await self.withDeadPartition(3, patience: .seconds(10)) { broker, reader in
            let ended = Flag()
            let dead = Task {
                defer { ended.set() }
                return await reader.records(of: "orders", at: [(1, 0), (1, 1)])
            }
            for _ in 0..<5 {
                let found = await reader.records(of: "orders", at: [(0, 3), (2, 4)])
                #expect(try found.map { try $0.get()?.offset } == [3, 4])
            }
            #expect(!ended.isSet, "while the other one waits")
            let failed = await dead.value
            #expect(failed == Array(repeating: .failure(KafkaError(.timedOut, "")), count: 2))
            let again = ContinuousClock.now
            #expect(await reader.records(of: "orders", at: [(1, 0)]) == [.failure(KafkaError(.timedOut, ""))])
            #expect(ContinuousClock.now - again < .seconds(8), "it has just been waited for")
            try broker.setLeader(of: "orders", partition: 1, exists: true)
            try await eventually("the record") {
                await (try? reader.records(of: "orders", at: [(1, 2)])[0].get()?.offset) == 2
            }
        }
    }

    @Test func cancellingAndClosingEndTheWait() async throws {
        try await self.withDeadPartition(2, patience: .seconds(50)) { _, reader in
            let task = Task { await reader.records(of: "orders", at: [(1, 0), (0, 5)]) }
            // The other partition is read meanwhile.
            _ = try await reader.records(of: "orders", at: [(0, 1)])[0].get()
            task.cancel()
            #expect(await task.value[0] == .failure(KafkaError(.cancelled, "")))
            let other = Task { await reader.records(of: "orders", at: [(1, 0)]) }
            _ = try await reader.records(of: "orders", at: [(0, 1)])[0].get()
            await reader.close()
            #expect(await other.value == [.failure(KafkaError(.closed, ""))])
        }
    }

    /// A refusal of the topic, as for a user without any right, and of the fetch, as for one without Read.
    @Test(arguments: [true, false]) func aRefusalEndsTheReadAndNamesTheRight(hidesTopic: Bool) async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 2)])
        for partition in 0..<2 { try await fill(broker, "orders", 3, partition: Int32(partition)) }
        let log = EventLog()
        let reader = try KafkaReader(
            ofSingleRecords: configuration(broker, onEvent: log.record), patience: .seconds(40))
        if hidesTopic {
            try broker.setError(topic: "orders", code: 29)
        } else {
            try broker.fail(apiKey: 1, with: Array(repeating: 29, count: 1000))
        }
        let began = ContinuousClock.now
        let found = await reader.records(of: "orders", at: [(0, 0), (0, 1), (1, 0)])
        #expect(found == Array(repeating: .failure(KafkaError(.authorization, "")), count: 3), "\(found)")
        #expect(ContinuousClock.now - began < .seconds(20))
        #expect(log.contains(.denied, "grant Read on topic orders"), "\(log.all)")
        #expect(!log.contains(.granted))
        await reader.close()
        broker.close()
    }

    @Test func aRightThatIsGrantedIsNoticed() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 1)])
        try await fill(broker, "orders", 3, partition: 0)
        let log = EventLog()
        let reader = try KafkaReader(
            ofSingleRecords: configuration(broker, onEvent: log.record), patience: .seconds(5))
        try broker.setError(topic: "orders", code: 29)
        try await eventually("the refusal") {
            _ = await reader.records(of: "orders", at: [(0, 0)])
            return log.contains(.denied, "grant Read on topic orders")
        }
        try broker.setError(topic: "orders", code: 0)
        try await eventually("the record") {
            await (try? reader.records(of: "orders", at: [(0, 0)])[0].get()?.offset) == 0
        }
        #expect(log.all.filter { $0.kind == .granted }.map(\.denial) == [.read(topic: "orders")])
        await reader.close()
        broker.close()
    }
}

/// The decisions, without a broker.
@Suite struct RecordReadsTests {
    private static let start = ContinuousClock.now
    private var reads = RecordReads(rest: .seconds(5))

    private func name(_ partition: Int32) -> KafkaPartition { KafkaPartition(topic: "orders", partition: partition) }

    private mutating func add(_ places: [(partition: Int32, offset: Int64)], at second: Int = 0) -> (RecordCall, Bool) {
        let call = RecordCall(count: places.count)
        let now = Self.start + .seconds(second)
        let serves = self.reads.add(call, of: "orders", at: places, now: now, deadline: now + .seconds(5))
        return (call, serves)
    }

    @Test mutating func eachPartitionHasOneFetchAndTheLongestWaitingIsNext() {
        let (_, serves) = self.add([(2, 7), (1, 5), (1, 3), (3, 1)])
        #expect(serves)
        var next = self.reads.next(room: 2)
        #expect(next.map(\.read.offset) == [3, 7])
        #expect(self.reads.isCrowded)
        let (_, again) = self.add([(1, 9)])
        #expect(!again, "somebody serves already")
        self.reads.answered(self.name(1))
        next = self.reads.next(room: 2)
        #expect(next.map(\.read.offset) == [1, 5], "the one that waits longer is first")
        self.reads.answered(self.name(1))
        next = self.reads.next(room: 9)
        #expect(next.map(\.read.offset) == [9])
        for partition in [Int32(1), 2] { self.reads.answered(self.name(partition)) }
        var isOver = self.reads.isOver()
        #expect(!isOver)
        self.reads.answered(self.name(3))
        isOver = self.reads.isOver()
        #expect(isOver)
    }

    @Test mutating func aFailureTakesTheReadsOfItsPartitionForAWhile() async {
        let (call, _) = self.add([(1, 1), (1, 2), (2, 1)])
        _ = self.reads.next(room: 9)
        let error = KafkaError(.timedOut, "reading orders/1")
        let (reason, others) = self.reads.failed(self.name(1), error, now: Self.start + .seconds(5))
        #expect(reason.message == error.message)
        #expect(others.map(\.offset) == [2])
        for (index, _) in [0, 1, 2].enumerated() { call.finish(index, .failure(error)) }
        #expect(await call.results().count == 3)
        let (early, _) = self.add([(1, 1)], at: 9)
        #expect(early.isOver)
        #expect(await early.results() == [.failure(error)])
        let (late, _) = self.add([(1, 1)], at: 10)
        #expect(!late.isOver, "it is tried again")
        let next = self.reads.next(room: 9)
        #expect(next.map(\.name) == [self.name(1)])
        #expect(next.first?.read.deadline == Self.start + .seconds(11), "not for long")
        self.reads.answered(self.name(1))
        _ = self.add([(1, 1)], at: 12)
        let whole = self.reads.next(room: 9)
        #expect(whole.first?.read.deadline == Self.start + .seconds(17))
        // A refusal is reported once.
        _ = self.reads.failed(self.name(1), KafkaError(.authorization, ""), now: Self.start + .seconds(12))
        let second = self.reads.failed(self.name(1), error, now: Self.start + .seconds(18))
        #expect(second.reason.code == .authorization)
    }

    @Test mutating func readsWithoutAPlaceEndAtTheirDeadlineAndThoseOfEndedCallsAreDropped() {
        let (first, _) = self.add([(1, 1), (2, 1), (3, 1)])
        let started = self.reads.next(room: 1)
        #expect(self.reads.overdue(now: Self.start + .seconds(4)).isEmpty)
        #expect(self.reads.overdue(now: Self.start + .seconds(5)).map(\.read.index) == [1, 2])
        let none = self.reads.next(room: 9)
        #expect(none.isEmpty)
        self.reads.putBack(started[0].name, started[0].read)
        first.end(KafkaError(.cancelled, ""))
        let dropped = self.reads.next(room: 9)
        #expect(dropped.isEmpty)
        let isOver = self.reads.isOver()
        #expect(isOver)
    }
}
