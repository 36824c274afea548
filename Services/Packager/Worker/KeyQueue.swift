import DequeModule
import Kafka

/// Records in hand, sorted by key: decides what is processed next. No Kafka, no clock, no task.
///
/// A key is in one place at a time: ready, in work, or parked until its time has come. All records that wait for a key
/// make its next piece of work, in order of arrival. A parked key delays no other.
///
/// Groups of keys take turns, and none takes more than its share of the records in hand: as much as is left for all
/// others. So one group gets half, two get a third each, and there is always room for one more. Source: Choudhury,
/// Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998 (alpha = 1)
struct KeyQueue: Sendable {
    typealias Key = [UInt8]?
    typealias Amount = (records: Int, bytes: Int)

    /// Limits on records in hand, and on one batch.
    struct Limits: Sendable {
        /// All records that are not done, and their bytes by `KafkaRecord.size`.
        var records: Int
        var bytes: Int
        /// Limits of one batch; a single key may exceed the bytes, by one record.
        var batchKeys: Int
        var batchBytes: Int
    }

    private struct Entry {
        let group: Int
        var waiting: [KafkaRecord] = []
        var inWork: [KafkaRecord] = []
        /// Records in work that have gone to another member meanwhile.
        var left: [KafkaRecord] = []
        /// Bytes that wait or are in work.
        var bytes = 0
        /// The number of times that it had to wait since it was last done.
        var attempts = 0
        var place = Place.nowhere
        /// True if it is parked until a record arrives for it.
        var awaits = false
        /// True if it was handed out before its obstacle may have gone.
        var isOutdated = false
    }

    /// Keys that take turns with those of other groups.
    private struct Group {
        /// The number of its records in hand.
        var records = 0
        var bytes = 0
        var ready: Deque<Key> = []
        var isInTurn = false
    }

    private enum Place { case nowhere, ready, inWork, parked }

    /// The result for a new record.
    enum Answer {
        case taken
        /// Its group has its share already.
        case full
        /// Its key has as much as fits into a batch.
        case keyIsFull
    }

    /// A group with more ready keys than this has a backlog: it gets batches of its own. Others share batches.
    static let bulk = 32
    /// A group with more records in hand than this has one as well, for its few keys take as long as many.
    static let bulkRecords = 256

    let limits: Limits
    private var entries: [Key: Entry] = [:]
    private var groups: [Group] = []
    /// Groups with ready keys, the next one first.
    private var turns: Deque<Int> = []
    /// Parked keys and the times at which they become due.
    private var parked: [Key: ContinuousClock.Instant] = [:]
    /// No parked key is due before this time; nil if none is parked.
    private var nextDue: ContinuousClock.Instant?
    /// Keys that had to wait and are not done since, and the time when that began.
    private var delayed: [Key: ContinuousClock.Instant] = [:]
    /// Records that went to another member while they were in work, and came back undone.
    private var undone: [KafkaRecord] = []
    /// Ready keys that are worked on alone.
    private var suspects: [Key] = []
    /// The records in hand.
    private(set) var records = 0
    private(set) var bytes = 0

    init(limits: Limits) { self.limits = limits }

    /// The number of records and bytes that may come in. Both must be above 0 for any record; one may exceed the bytes.
    var room: Amount { (self.limits.records - self.records, self.limits.bytes - self.bytes) }
    /// The number of keys that must be retried.
    var delayedCount: Int { self.delayed.count }
    /// The time since which the first of them waits.
    var delayedSince: ContinuousClock.Instant? { self.delayed.values.min() }

    /// True if keys are ready that are worked on alone.
    var hasSuspects: Bool { !self.suspects.isEmpty }

    /// Returns true if `next` has a batch to return.
    func hasReady(allowsBulk: Bool = true) -> Bool {
        self.turns.contains { allowsBulk || !self.isBulk($0) }
    }

    private func isBulk(_ group: Int) -> Bool {
        self.groups[group].ready.count > Self.bulk || self.groups[group].records > Self.bulkRecords
    }

    /// Returns true if a group has its whole share.
    ///
    /// - Parameter isShared: true if capacity is shared with other groups.
    func isFull(_ group: Int, isShared: Bool) -> Bool {
        let room = self.room
        let has: Amount = isShared ? self.inHand(of: group) : (0, 0)
        return has.records >= room.records || has.bytes >= room.bytes
    }

    /// Returns true if enough of a group's share is free to make reading more for it worthwhile.
    func isHalfEmpty(_ group: Int, isShared: Bool) -> Bool {
        let room: Amount = isShared ? self.room : (self.limits.records, self.limits.bytes)
        let has: Amount = isShared ? self.inHand(of: group) : (self.records, self.bytes)
        return has.records * 2 <= room.records && has.bytes * 2 <= room.bytes
    }

    /// Returns the same for a key.
    func isHalfEmpty(_ key: Key) -> Bool { (self.entries[key]?.bytes ?? 0) * 2 <= self.limits.batchBytes }

    private func inHand(of group: Int) -> Amount {
        group < self.groups.count ? (self.groups[group].records, self.groups[group].bytes) : (0, 0)
    }

    /// Adds a record if there is room for it. Those of one partition come in order.
    ///
    /// - Parameter isKeyBounded: true if a key may not have more than fits into a batch.
    mutating func add(
        _ record: KafkaRecord, group: Int, isShared: Bool, isKeyBounded: Bool = true
    ) -> Answer {
        if self.isFull(group, isShared: isShared) { return .full }
        return self.put(record, group, limit: isKeyBounded && record.key != nil ? self.limits.batchBytes : .max)
    }

    /// Adds records, those of one partition in order, even without room.
    mutating func add(_ records: [KafkaRecord]) {
        for record in records { _ = self.put(record, 0, limit: .max) }
    }

    private mutating func put(_ record: KafkaRecord, _ group: Int, limit: Int) -> Answer {
        let size = record.size
        // A single lookup: this runs for every record.
        let result: (group: Int, isNew: Bool)? = Self.change(&self.entries[record.key, default: Entry(group: group)]) {
            guard $0.bytes < limit else { return nil }
            $0.waiting.append(record)
            $0.bytes += size
            let isNew = $0.place == .nowhere || $0.awaits
            $0.awaits = false
            if isNew { $0.place = .ready }
            return ($0.group, isNew)
        }
        guard let result else { return .keyIsFull }
        self.records += 1
        self.bytes += size
        while self.groups.count <= result.group { self.groups.append(Group()) }
        self.groups[result.group].records += 1
        self.groups[result.group].bytes += size
        if result.isNew {
            if !self.parked.isEmpty { self.parked[record.key] = nil }
            self.makeReady(record.key, result.group)
        }
        return .taken
    }

    private static func change<Value>(_ entry: inout Entry, _ body: (inout Entry) -> Value) -> Value { body(&entry) }

    /// Makes parked keys ready whose time has come.
    mutating func wake(now: ContinuousClock.Instant) {
        guard let due = self.nextDue, due <= now else { return }
        self.wake(self.parked.filter { $0.value <= now })
    }

    /// Makes parked keys of some groups ready, since their obstacles may be gone. Those in work are handed out once
    /// more instead of being parked.
    mutating func wake(_ groups: Set<Int>) {
        guard !groups.isEmpty, !self.entries.isEmpty else { return }
        let keys = self.entries.filter { groups.contains($0.value.group) }
        for (key, entry) in keys where entry.place == .inWork { self.entries[key]?.isOutdated = true }
        self.wake(self.parked.filter { keys[$0.key] != nil })
    }

    private mutating func wake(_ keys: [Key: ContinuousClock.Instant]) {
        for (key, _) in keys.sorted(by: { $0.value < $1.value }) {
            self.parked[key] = nil
            guard let group = self.entries[key]?.group else { continue }
            self.entries[key]?.place = .ready
            self.entries[key]?.awaits = false
            self.makeReady(key, group)
        }
        self.nextDue = self.parked.values.min()
    }

    /// Returns the next batch: different keys, none of which is in work. Empty: nothing is ready.
    ///
    /// - Parameters:
    ///   - allowsBulk: true to include a group with a backlog.
    ///   - isSuspect: returns true for a key that is left to `nextSuspect`; nil: there is none.
    mutating func next(allowsBulk: Bool = true, isSuspect: ((Key) -> Bool)? = nil) -> [KeyedWork] {
        var works: [KeyedWork] = []
        var bytes = 0
        for _ in 0..<self.turns.count where works.count < self.limits.batchKeys {
            let group = self.turns.removeFirst()
            let isBulk = self.isBulk(group)
            var isEnough = false
            if !isBulk || allowsBulk && works.isEmpty {
                isEnough = !self.fill(&works, &bytes, from: group, isSuspect) || isBulk && !works.isEmpty
            }
            self.groups[group].isInTurn = !self.groups[group].ready.isEmpty
            if self.groups[group].isInTurn { self.turns.append(group) }
            if isEnough { break }
        }
        return works
    }

    /// Adds ready keys of a group to a batch.
    ///
    /// - Returns: false if there is a key for which the batch has no room.
    private mutating func fill(
        _ works: inout [KeyedWork], _ bytes: inout Int, from group: Int, _ isSuspect: ((Key) -> Bool)?
    ) -> Bool {
        while let key = self.groups[group].ready.first {
            // A dropped key has no entry any more; one that returned in the meantime is here twice.
            guard var entry = self.entries[key], entry.place == .ready, entry.group == group else {
                self.groups[group].ready.removeFirst()
                continue
            }
            if let isSuspect, isSuspect(key) {
                self.groups[group].ready.removeFirst()
                self.suspects.append(key)
                continue
            }
            let isOver = !works.isEmpty && bytes + entry.bytes > self.limits.batchBytes
            if isOver || works.count >= self.limits.batchKeys { return false }
            self.groups[group].ready.removeFirst()
            bytes += entry.bytes
            works.append(KeyedWork(key: key, records: entry.waiting, attempts: entry.attempts))
            entry.inWork = entry.waiting
            entry.waiting = []
            entry.isOutdated = false
            entry.place = .inWork
            self.entries[key] = entry
        }
        return true
    }

    /// Returns the first record of the key that ranks highest among those that are worked on alone; nil: none is ready.
    mutating func nextSuspect(_ rank: (Key) -> Int) -> KeyedWork? {
        self.suspects.removeAll { self.entries[$0]?.place != .ready }
        var index = 0
        for other in self.suspects.indices where rank(self.suspects[other]) > rank(self.suspects[index]) {
            index = other
        }
        guard !self.suspects.isEmpty, var entry = self.entries[self.suspects[index]] else { return nil }
        let key = self.suspects.remove(at: index)
        entry.inWork = Array(entry.waiting.prefix(1))
        entry.waiting.removeFirst(entry.inWork.count)
        entry.isOutdated = false
        entry.place = .inWork
        self.entries[key] = entry
        return KeyedWork(key: key, records: entry.inWork, attempts: entry.attempts)
    }

    /// Completes a key whose work has returned and is done.
    mutating func done(_ key: Key) {
        guard var entry = self.entries[key], entry.place == .inWork else { return }
        self.forget(entry.inWork, of: &entry)
        entry.inWork = []
        entry.left = []
        self.delayed[key] = nil
        self.release(key, entry)
    }

    /// Completes the first records of a key whose work has returned. The others are ready again.
    mutating func partly(_ key: Key, _ records: some Sequence<KafkaRecord>) {
        guard var entry = self.entries[key], entry.place == .inWork else { return }
        let done = Set(records.lazy.map(\.receipt))
        self.forget(entry.inWork.filter { done.contains($0.receipt) }, of: &entry)
        entry.inWork.removeAll { done.contains($0.receipt) }
        entry.left.removeAll { done.contains($0.receipt) }
        self.entries[key] = entry
        guard let back = self.takeBack(key) else { return }
        self.delayed[key] = nil
        self.release(key, back)
    }

    /// Parks a key whose work has returned and must be done again.
    ///
    /// - Parameter delay: the length of the wait, from the number of times the key had to wait.
    mutating func later(_ key: Key, now: ContinuousClock.Instant, delay: (_ attempts: Int) -> Duration) {
        guard var entry = self.takeBack(key) else { return }
        entry.attempts += 1
        self.park(key, entry, until: now + delay(entry.attempts))
        if self.delayed[key] == nil { self.delayed[key] = now }
    }

    /// Parks a key whose work has returned and waits for records that may still arrive, unless one has arrived.
    ///
    /// - Parameter due: the time at which it is handed out again in any case.
    mutating func awaits(_ key: Key, until due: ContinuousClock.Instant) {
        // A record arrived in the meantime.
        let isDue = self.entries[key]?.waiting.isEmpty == false
        guard var entry = self.takeBack(key) else { return }
        self.delayed[key] = nil
        if isDue { return self.release(key, entry) }
        entry.attempts = 0
        entry.awaits = true
        self.park(key, entry, until: due)
    }

    /// Puts the records in work in front of those that wait.
    ///
    /// - Returns: nil if nothing of it is here any more.
    private mutating func takeBack(_ key: Key) -> Entry? {
        guard var entry = self.entries[key], entry.place == .inWork else { return nil }
        self.undone += entry.left
        entry.left = []
        guard !entry.inWork.isEmpty else {
            // All of it went to another member meanwhile.
            self.delayed[key] = nil
            self.release(key, entry)
            return nil
        }
        entry.waiting = entry.inWork + entry.waiting
        entry.inWork = []
        return entry
    }

    private mutating func park(_ key: Key, _ entry: Entry, until due: ContinuousClock.Instant) {
        var entry = entry
        entry.place = entry.isOutdated ? .ready : .parked
        entry.awaits = entry.awaits && !entry.isOutdated
        self.entries[key] = entry
        if entry.isOutdated { return self.makeReady(key, entry.group) }
        self.parked[key] = due
        self.nextDue = min(self.nextDue ?? due, due)
    }

    /// Drops the records of some partitions, which go to another member. Those in work are not returned again.
    ///
    /// - Returns: those that were not in work, and those that left before and came back undone since.
    mutating func drop(_ partitions: Set<KafkaPartition>) -> [KafkaRecord] {
        func leaves(_ record: KafkaRecord) -> Bool {
            partitions.contains(KafkaPartition(topic: record.topic, partition: record.partition))
        }
        var dropped = self.undone
        self.undone = []
        for (key, var entry) in self.entries {
            let waiting = entry.waiting.filter(leaves)
            let inWork = entry.inWork.filter(leaves)
            if waiting.isEmpty, inWork.isEmpty { continue }
            dropped += waiting
            self.forget(waiting, of: &entry)
            self.forget(inWork, of: &entry)
            entry.waiting.removeAll(where: leaves)
            entry.inWork.removeAll(where: leaves)
            entry.left += inWork
            guard entry.waiting.isEmpty, entry.place != .inWork else {
                self.entries[key] = entry
                continue
            }
            // `next` skips a ready key without an entry.
            self.entries[key] = nil
            self.parked[key] = nil
            self.delayed[key] = nil
        }
        return dropped
    }

    private mutating func makeReady(_ key: Key, _ group: Int) {
        self.groups[group].ready.append(key)
        if self.groups[group].isInTurn { return }
        self.groups[group].isInTurn = true
        self.turns.append(group)
    }

    /// Releases a key that left work: it is ready if records arrived in the meantime, else forgotten.
    private mutating func release(_ key: Key, _ entry: Entry) {
        guard !entry.waiting.isEmpty else {
            self.entries[key] = nil
            return
        }
        var entry = entry
        entry.attempts = 0
        entry.place = .ready
        self.entries[key] = entry
        self.makeReady(key, entry.group)
    }

    private mutating func forget(_ records: [KafkaRecord], of entry: inout Entry) {
        let bytes = records.reduce(0) { $0 + $1.size }
        entry.bytes -= bytes
        self.records -= records.count
        self.bytes -= bytes
        self.groups[entry.group].records -= records.count
        self.groups[entry.group].bytes -= bytes
    }
}

/// Keys that share a worker's capacity, and wait together: those of one order type.
struct KeyGroup: Hashable, Sendable {
    /// The part of its keys before the `/`.
    let name: String
    /// The reason why all of its work waits; nil: it does not.
    let awaits: String?
    /// Another number each time that what its work depends on is loaded: its brand, its source.
    var generation = 0
}

/// The groups that a worker knows, by number.
///
/// Bounded by the number of groups ever named: all other keys, whatever they are, form one group, `unknown`.
struct KeyGroups: Sendable {
    /// The group of keys that belong to no known group.
    static let unknown = 0

    private(set) var names = ["other"]
    private var numbers: [ArraySlice<UInt8>: Int] = [:]
    private var awaited: [Int: String] = [:]
    /// Those of the present groups.
    private var generations: [Int: Int] = [:]
    /// Groups that became known while records of `unknown`, some of them theirs, were deferred: their keys remain there
    /// until all of those are resumed, so that each key keeps its order.
    private var latecomers: Set<Int> = []
    /// The number of present groups, `unknown` apart.
    private(set) var count = 0
    /// The group of the last key, since consecutive keys often belong to one.
    private var last: (name: ArraySlice<UInt8>, number: Int)?

    /// True if there is more than one group, so that none may take everything.
    var isShared: Bool { self.count > 1 }

    /// Sets the present groups.
    ///
    /// - Parameter unknownWait: true if records of `unknown` are deferred.
    /// - Returns: groups whose obstacles may be gone: those that do not wait and did, or were loaded since. With them
    ///   also `unknown`, where their keys may be.
    mutating func update(_ groups: [KeyGroup], unknownWait: Bool) -> Set<Int> {
        self.last = nil
        if !unknownWait { self.latecomers = [] }
        let (awaited, generations) = (self.awaited, self.generations)
        (self.awaited, self.generations) = ([:], [:])
        var renewed: Set<Int> = []
        for group in groups {
            let name = ArraySlice(group.name.utf8)
            let number = self.numbers[name] ?? self.names.count
            if number == self.names.count {
                self.names.append(group.name)
                self.numbers[name] = number
                if unknownWait { self.latecomers.insert(number) }
            }
            self.generations[number] = group.generation
            if let reason = group.awaits {
                self.awaited[number] = reason
            } else if awaited[number] != nil || generations[number] != group.generation {
                renewed.formUnion([number, Self.unknown])
            }
        }
        self.count = self.generations.count
        return renewed
    }

    mutating func number(of key: [UInt8]?) -> Int {
        guard !self.numbers.isEmpty, let key, let end = key.firstIndex(of: UInt8(ascii: "/")) else {
            return Self.unknown
        }
        let name = key[..<end]
        if let last = self.last, last.name == name { return last.number }
        var number = self.numbers[name] ?? Self.unknown
        if self.latecomers.contains(number) { number = Self.unknown }
        self.last = (name, number)
        return number
    }

    /// The reason why all work of a group waits.
    func reason(_ number: Int) -> String? { self.awaited[number] }
}
