import Model

/// The keys that were in work when a worker ended: one of their records may have ended it. Decides how often such a
/// record may be begun. No Redis, no clock.
///
/// Each of their records is worked on alone. A record counts the times that it was begun so and did not come to an end:
/// machines that are lost, an operator's `kill -9` and memory that runs out hit one with many others in work, so they
/// accuse none. After `mostBeginnings` the next owner makes a dead letter of it instead.
///
/// Bounded: by `WorkMarks.suspectLimit`.
public struct SuspectKeys: Sendable {
    /// Names a key; two keys with one name are worked on alone together.
    public struct Digest: Hashable, Sendable {
        let value: UInt64

        init(value: UInt64) { self.value = value }

        public init(_ key: [UInt8]?) {
            var hash = FNV1a()
            if let key { hash.combine(key) }
            self.value = hash.value
        }
    }

    /// The times that a record was begun alone and did not end.
    public struct Beginnings: Hashable, Sendable {
        /// `<topic>/<partition>/<offset>`; empty if none was begun.
        public var place = ""
        public var count = 0

        public init(place: String = "", count: Int = 0) {
            self.place = place
            self.count = count
        }
    }

    private struct Entry {
        var beginnings: Beginnings
        let learned: ContinuousClock.Instant
        /// The time when a record of it came to its end first.
        var ended: ContinuousClock.Instant?
    }

    /// The times that a record may be begun alone.
    public static let mostBeginnings = 3
    /// The time for which work waits for the marks to be read.
    public static let patience = Duration.seconds(5)
    /// The time for which a key remains a suspect after a record of it came to its end: others of it may still arrive.
    static let calm = Duration.seconds(30)

    /// The time for which a key remains one of which nothing comes.
    static let kept = Duration.milliseconds(WorkMarks.keptMilliseconds)

    /// The time after which a record in work alone is waiting for an upstream: it is not to blame for the end of its
    /// worker then.
    public static let instant = Duration.seconds(2)

    private var entries: [Digest: Entry] = [:]
    /// The number of times that partitions came, or the worker began.
    private var assignments = 1
    /// The last of them after which the marks of ended workers were read.
    private var examined = 0

    public init() {}

    /// Notes that partitions came: what ended workers had in work is among their records.
    public mutating func assigned() { self.assignments += 1 }

    /// The assignment for which the marks of ended workers are to be read; nil: they are read.
    public var unexamined: Int? { self.examined < self.assignments ? self.assignments : nil }

    public var count: Int { self.entries.count }
    public var isEmpty: Bool { self.entries.isEmpty }

    public func contains(_ key: [UInt8]?) -> Bool { !self.isEmpty && self.entries[Digest(key)] != nil }

    /// The beginnings of a suspect's record: the one with most of them is tried first, since it stops the others.
    public func beginnings(of key: [UInt8]?) -> Int { self.entries[Digest(key)]?.beginnings.count ?? 0 }

    /// Takes over what Redis had after an assignment.
    public mutating func learn(
        _ suspects: [Digest: Beginnings], after assignment: Int, now: ContinuousClock.Instant
    ) {
        self.examined = assignment
        for (digest, beginnings) in suspects {
            if self.entries[digest] == nil {
                self.entries[digest] = Entry(beginnings: beginnings, learned: now)
            } else {
                self.entries[digest]?.beginnings = beginnings
            }
        }
    }

    /// Notes that a record is about to be begun alone.
    ///
    /// - Returns: its beginnings with this one.
    public mutating func begin(_ key: [UInt8]?, at place: String, now: ContinuousClock.Instant) -> Beginnings {
        let digest = Digest(key)
        var entry = self.entries[digest] ?? Entry(beginnings: Beginnings(), learned: now)
        if entry.beginnings.place != place { entry.beginnings = Beginnings(place: place) }
        entry.beginnings.count += 1
        self.entries[digest] = entry
        return entry.beginnings
    }

    /// Notes that a record came to its end, or has to be tried again.
    public mutating func end(_ key: [UInt8]?, isDone: Bool, now: ContinuousClock.Instant) {
        let digest = Digest(key)
        self.entries[digest]?.beginnings = Beginnings()
        if isDone, self.entries[digest]?.ended == nil { self.entries[digest]?.ended = now }
    }

    /// Releases the keys that are above suspicion, and those of which nothing came.
    ///
    /// - Returns: the former, which Redis may forget; the latter may be another worker's.
    public mutating func release(now: ContinuousClock.Instant) -> [Digest] {
        guard !self.isEmpty else { return [] }
        let calm = self.entries.filter { $0.value.ended.map { now - $0 >= Self.calm } ?? false }.map(\.key)
        self.entries = self.entries.filter { _, entry in
            entry.ended.map { now - $0 < Self.calm } ?? (now - entry.learned < Self.kept)
        }
        return calm
    }
}
