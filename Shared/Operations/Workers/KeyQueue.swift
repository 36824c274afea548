import DequeModule
import Kafka

/// Records in hand, sorted by key: decides what is worked on next. No Kafka, no clock, no task.
///
/// A key is in one place at a time: ready, in work, or parked until its time has come. All records that wait for a key
/// make its next piece of work, in the order in which they came. A parked key keeps no other waiting.
public struct KeyQueue: Sendable {
    typealias Key = [UInt8]?

    /// How much may be in hand, and how much is given out at once.
    public struct Limits: Sendable {
        /// All records that are not done, and their bytes by `KafkaRecord.size`.
        var records: Int
        var bytes: Int
        /// Of one batch; a single key may reach over the bytes.
        var batchKeys: Int
        var batchBytes: Int

        public init(records: Int, bytes: Int, batchKeys: Int, batchBytes: Int) {
            self.records = records
            self.bytes = bytes
            self.batchKeys = batchKeys
            self.batchBytes = batchBytes
        }
    }

    private struct Entry {
        var waiting: [KafkaRecord] = []
        var inWork: [KafkaRecord] = []
        /// How often it had to wait since it was done last.
        var attempts = 0
        var place = Place.nowhere
    }

    private enum Place { case nowhere, ready, inWork, parked }

    let limits: Limits
    private var entries: [Key: Entry] = [:]
    private var ready: Deque<Key> = []
    /// Parked keys and when their time comes.
    private var parked: [Key: ContinuousClock.Instant] = [:]
    /// No parked key is due before; nil when none is parked.
    private var nextDue: ContinuousClock.Instant?
    /// Keys that had to wait and are not done since, and when that began.
    private var delayed: [Key: ContinuousClock.Instant] = [:]
    /// What is in hand.
    private(set) var records = 0
    private(set) var bytes = 0

    init(limits: Limits) { self.limits = limits }

    /// How many records and bytes may come in. Both must be above 0 for any to; one record may reach over the bytes.
    var room: (records: Int, bytes: Int) { (self.limits.records - self.records, self.limits.bytes - self.bytes) }
    var readyCount: Int { self.ready.count }
    /// Keys that have to be tried again.
    var delayedCount: Int { self.delayed.count }
    /// Since when the first of them waits.
    var delayedSince: ContinuousClock.Instant? { self.delayed.values.min() }

    /// Takes records in, those of one partition in order.
    mutating func add(_ records: [KafkaRecord]) {
        for record in records {
            self.records += 1
            self.bytes += record.size
            self.enqueue(record.key) { $0.waiting.append(record) }
        }
    }

    /// Makes parked keys ready whose time has come.
    mutating func wake(now: ContinuousClock.Instant) {
        guard let due = self.nextDue, due <= now else { return }
        for (key, _) in self.parked.filter({ $0.value <= now }).sorted(by: { $0.value < $1.value }) {
            self.parked[key] = nil
            self.enqueue(key) { $0.place = .nowhere }
        }
        self.nextDue = self.parked.values.min()
    }

    /// Gives out the next batch: different keys, none of which is in work. Empty: nothing is ready.
    mutating func next() -> [KeyedWork] {
        var works: [KeyedWork] = []
        var bytes = 0
        while works.count < self.limits.batchKeys, let key = self.ready.first {
            // One that was dropped has no entry any more; one that came again meanwhile stands here twice.
            guard var entry = self.entries[key], entry.place == .ready else {
                self.ready.removeFirst()
                continue
            }
            let size = entry.waiting.reduce(0) { $0 + $1.size }
            if !works.isEmpty, bytes + size > self.limits.batchBytes { break }
            self.ready.removeFirst()
            bytes += size
            works.append(KeyedWork(key: key, records: entry.waiting, attempts: entry.attempts))
            entry.inWork = entry.waiting
            entry.waiting = []
            entry.place = .inWork
            self.entries[key] = entry
        }
        return works
    }

    /// A key's work came back and is done.
    mutating func done(_ key: Key) {
        guard let entry = self.entries[key], entry.place == .inWork else { return }
        self.forget(entry.inWork)
        self.delayed[key] = nil
        self.release(key) {
            $0.inWork = []
            $0.attempts = 0
        }
    }

    /// A key's work came back and has to be done again.
    ///
    /// - Parameter delay: how long it waits, by how often it had to wait.
    mutating func later(_ key: Key, now: ContinuousClock.Instant, delay: (_ attempts: Int) -> Duration) {
        guard var entry = self.entries[key], entry.place == .inWork else { return }
        guard !entry.inWork.isEmpty else {
            // All of it went to somebody else meanwhile.
            self.delayed[key] = nil
            self.release(key) { $0.attempts = 0 }
            return
        }
        entry.attempts += 1
        entry.waiting = entry.inWork + entry.waiting
        entry.inWork = []
        entry.place = .parked
        let due = now + delay(entry.attempts)
        self.parked[key] = due
        self.nextDue = min(self.nextDue ?? due, due)
        if self.delayed[key] == nil { self.delayed[key] = now }
        self.entries[key] = entry
    }

    /// Forgets the records of some partitions, which go to somebody else. Those in work are not given out again.
    ///
    /// - Returns: those that were not in work.
    mutating func drop(_ partitions: Set<KafkaPartition>) -> [KafkaRecord] {
        func leaves(_ record: KafkaRecord) -> Bool {
            partitions.contains(KafkaPartition(topic: record.topic, partition: record.partition))
        }
        var dropped: [KafkaRecord] = []
        for (key, var entry) in self.entries {
            let waiting = entry.waiting.filter(leaves)
            let inWork = entry.inWork.filter(leaves)
            if waiting.isEmpty, inWork.isEmpty { continue }
            dropped += waiting
            self.forget(waiting)
            self.forget(inWork)
            entry.waiting.removeAll(where: leaves)
            entry.inWork.removeAll(where: leaves)
            guard entry.waiting.isEmpty, entry.place != .inWork else {
                self.entries[key] = entry
                continue
            }
            // A ready key without an entry is passed over by `next`.
            self.entries[key] = nil
            self.parked[key] = nil
            self.delayed[key] = nil
        }
        return dropped
    }

    /// Changes a key's entry and makes it ready if it is nowhere else.
    private mutating func enqueue(_ key: Key, _ change: (inout Entry) -> Void) {
        change(&self.entries[key, default: Entry()])
        guard self.entries[key]?.place == .nowhere else { return }
        self.entries[key]?.place = .ready
        self.ready.append(key)
    }

    /// A key left work: it is ready if records came meanwhile, else forgotten.
    private mutating func release(_ key: Key, _ change: (inout Entry) -> Void) {
        guard self.entries[key]?.waiting.isEmpty == false else {
            self.entries[key] = nil
            return
        }
        self.enqueue(key) { entry in
            change(&entry)
            entry.place = .nowhere
        }
    }

    private mutating func forget(_ records: [KafkaRecord]) {
        self.records -= records.count
        for record in records { self.bytes -= record.size }
    }
}
