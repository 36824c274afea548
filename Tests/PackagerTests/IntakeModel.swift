import Kafka
import TestKit
import Testing

@testable import Packager

/// A `WorkIntake` together with lists of what was published, done and committed.
struct IntakeModel {
    private var random: SeededGenerator
    private var intake: WorkIntake
    private let limits: KeyQueue.Limits
    private let partitions = (0..<3).map { KafkaPartition(topic: "t", partition: $0) }
    /// Everything that was published, by partition; the offset is the index.
    private var log: [[KafkaRecord]] = [[], [], []]
    /// The next record to read, by partition.
    private var read = [0, 0, 0]
    /// By partition: what was done since it was last assigned, and what the consumer's ledger has in hand or holds.
    private var done: [Set<Int64>] = [[], [], []]
    private var inHand: [Set<Int64>] = [[], [], []]
    private var held: [Int64?] = [nil, nil, nil]
    private var committed: [Int64] = [0, 0, 0]
    /// The last finished offset of each key since its partition was assigned.
    private var last: [String: Int64] = [:]
    private var works: [KeyedWork] = []
    private var reading: (reading: DeferredRecords.Reading, position: Int64)?
    private var awaited: Set<String> = []
    private var poisoned: Set<String> = []
    private var now = ContinuousClock.now

    init(seed: UInt64, limits: KeyQueue.Limits) {
        self.random = SeededGenerator(seed: seed)
        self.intake = WorkIntake(limits: limits)
        self.limits = limits
        self.update()
    }

    private mutating func update() {
        self.intake.update(
            ["a", "b", "c"].map { KeyGroup(name: $0, awaits: self.awaited.contains($0) ? "expired" : nil) })
    }

    private mutating func roll(_ count: Int) -> Int { Int.random(in: 0..<count, using: &self.random) }

    mutating func step() throws {
        self.now += .milliseconds(self.roll(100))
        switch self.roll(100) {
        case 0..<30: self.publish()
        case 30..<50: self.poll()
        case 50..<65: self.works += self.intake.queue.next(allowsBulk: self.roll(2) == 0)
        case 65..<80: try self.settle()
        case 80..<94: try self.readAgain()
        case 94..<96:
            let name = ["a", "b", "c"][self.roll(3)]
            if self.awaited.remove(name) == nil { self.awaited.insert(name) }
            self.update()
        case 96..<98:
            let key = ["a/0", "b/1", "c/2", "?/0"][self.roll(4)]
            if self.poisoned.remove(key) == nil { self.poisoned.insert(key) }
        case 98: self.intake.queue.wake(now: self.now)
        default: if self.roll(4) == 0 { self.rebalance(self.roll(3)) }
        }
        try self.check()
    }

    /// Makes all brands available and all keys healthy, and works until everything is done.
    mutating func drain() throws {
        self.awaited = []
        self.poisoned = []
        self.update()
        for _ in 0..<100_000 {
            if self.isDone { break }
            self.now += .seconds(1)
            self.intake.queue.wake(now: self.now)
            self.poll()
            self.works += self.intake.queue.next()
            try self.settle()
            try self.readAgain()
            try self.check()
        }
        #expect(self.isDone)
        #expect(self.intake.deferred.isEmpty)
        #expect(self.intake.deferred.counts.isEmpty)
        #expect(self.intake.deferred.keyCount == 0)
        #expect(self.intake.deferred.gone == 0)
        #expect(self.intake.queue.records == 0)
        #expect(self.intake.queue.bytes == 0)
        #expect(self.committed == self.log.map { Int64($0.count) })
    }

    private var isDone: Bool {
        self.works.isEmpty && zip(self.log, self.read).allSatisfy { $0.count == $1 }
            && self.inHand.allSatisfy(\.isEmpty) && self.held.allSatisfy { $0 == nil }
    }

    private mutating func publish() {
        let group = ["a", "b", "b", "b", "c", "?"][self.roll(6)]
        for _ in 0..<self.roll(20) {
            let key = "\(group)/\(self.roll(self.roll(3) == 0 ? 1 : 6))"
            // A key belongs to one partition.
            let partition = Int(key.utf8.reduce(0) { $0 &+ Int($1) }) % 3
            self.log[partition].append(
                KafkaRecord(
                    topic: "t", partition: Int32(partition), offset: Int64(self.log[partition].count),
                    timestampMilliseconds: 0, key: Array(key.utf8), value: [UInt8](repeating: 0, count: self.roll(400)))
            )
        }
    }

    private mutating func poll() {
        let partition = self.roll(3)
        let start = self.read[partition]
        let end = min(self.log[partition].count, start + self.roll(15))
        let records = Array(self.log[partition][start..<end])
        self.read[partition] = end
        self.inHand[partition].formUnion(records.map(\.offset))
        self.apply(self.intake.add(records))
    }

    private mutating func apply(_ deferral: KafkaDeferral) {
        for receipt in deferral.again {
            #expect(self.inHand[Int(receipt.partition)].insert(receipt.offset).inserted, "in hand once")
        }
        for (partition, offset) in deferral.holds { self.held[Int(partition.partition)] = offset }
        for receipt in deferral.putOff {
            #expect(self.inHand[Int(receipt.partition)].remove(receipt.offset) != nil)
        }
    }

    private mutating func settle() throws {
        for work in self.works.shuffled(using: &self.random).prefix(self.roll(6)) {
            self.works.removeAll { $0.key == work.key }
            if self.poisoned.contains(work.name) || self.roll(5) == 0 {
                self.intake.queue.later(work.key, now: self.now) { .milliseconds(100 * min($0, 5)) }
                continue
            }
            let part = self.roll(work.records.count + 1)
            let outcome: KeyedWork.Outcome = self.roll(4) == 0 ? .partly(part) : .done
            for record in work.finished(by: outcome) {
                if self.inHand[Int(record.partition)].remove(record.offset) == nil { continue }
                #expect(self.done[Int(record.partition)].insert(record.offset).inserted, "\(work.name) is done once")
                #expect(record.offset > self.last[work.name] ?? -1, "\(work.name) keeps its order")
                self.last[work.name] = record.offset
            }
            if outcome == .done {
                self.intake.queue.done(work.key)
            } else {
                self.intake.queue.partly(work.key, work.finished(by: outcome))
            }
        }
    }

    private mutating func readAgain() throws {
        if self.reading == nil { self.reading = self.intake.nextReading().map { ($0, $0.from) } }
        guard var (reading, position) = self.reading else { return }
        let records = self.log[Int(reading.partition.partition)][Int(position)..<Int(reading.to)].prefix(
            1 + self.roll(40))
        self.apply(self.intake.addAgain(Array(records), &reading))
        position += Int64(records.count)
        if position == reading.to, !reading.isOver { self.apply(self.intake.readToTheEnd(&reading)) }
        // A read may fail at any offset.
        let isOver = reading.isOver || position == reading.to || self.roll(10) == 0
        if isOver { self.intake.end(reading) }
        self.reading = isOver ? nil : (reading, position)
    }

    /// Revokes a partition, and assigns it again from its committed offset.
    private mutating func rebalance(_ number: Int) {
        _ = self.intake.drop([self.partitions[number]])
        // Records in work arrive again later and no longer count.
        self.works = self.works.map { work in
            let records = work.records.filter { Int($0.partition) != number }
            return KeyedWork(key: work.key, records: records, attempts: work.attempts)
        }
        self.inHand[number] = []
        self.held[number] = nil
        self.read[number] = Int(self.committed[number])
        self.done[number] = self.done[number].filter { $0 < self.committed[number] }
        for (key, offset) in self.last where offset >= self.committed[number] {
            let partition = Int(key.utf8.reduce(0) { $0 &+ Int($1) }) % 3
            if partition == number { self.last[key] = nil }
        }
    }

    /// Checks that only finished records are committed, and that what is in hand is bounded.
    private mutating func check() throws {
        for number in 0..<3 {
            let open = self.inHand[number].min() ?? Int64(self.read[number])
            let position = min(open, self.held[number] ?? open)
            try #require(position >= self.committed[number], "positions do not go back")
            for offset in self.committed[number]..<position {
                try #require(self.done[number].contains(offset), "\(number)/\(offset) is committed and not done")
            }
            self.committed[number] = position
        }
        try #require(self.intake.queue.records <= self.limits.records)
        try #require(self.intake.queue.bytes <= self.limits.bytes + 1000)
    }
}
