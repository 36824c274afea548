public import Kafka

/// The dead letters that a pass over the topic selects: duplicates are merged, and replayed ones are marked.
///
/// A dead letter takes some 100 bytes, so a million take 100 MB; values are read again where they are needed.
public struct DeadLetterIndex: Sendable {
    /// The most dead letters that may match; a larger selection is refused.
    public static let limit = 2_000_000

    /// One dead letter with its duplicates.
    public struct Entry: Sendable {
        public let identity: UInt64
        /// Names it in markers of the release before.
        public let formerIdentity: UInt64
        /// The position of the first of the duplicates.
        public internal(set) var position: DeadLetterPosition
        public internal(set) var milliseconds: Int64
        public let order: UInt64
        /// The position of the change in its topic.
        public let source: DeadLetterPosition?
        /// True if the change was on another topic, whose removals are not known.
        public internal(set) var isElsewhere = false
        public let code: Int
        public let isOmitted: Bool
        public let isPush: Bool
        /// True for a source's record, which has no order yet.
        public internal(set) var isOfSource = false
        public internal(set) var copies = 1
    }

    public private(set) var entries: [Entry] = []
    public private(set) var codes: [String] = []
    /// Records that are neither a dead letter nor a marker.
    public private(set) var others = 0
    private var byIdentity: [UInt64: Int32] = [:]
    private var notes: Set<UInt64> = []
    private var purges: [UInt64: DeadLetterPurge] = [:]
    /// The offset up to which each partition was read.
    private var ends: [Int32: Int64] = [:]
    /// True if more dead letters matched than are remembered.
    public private(set) var isOverfull = false
    public private(set) var filter: DeadLetterFilter

    /// The topic of changes; if nil, all sources count as positions in it.
    private let changes: String?
    private let limit: Int

    /// - Parameter limit: the most dead letters, and the most markers of each kind, that are remembered.
    public init(_ filter: DeadLetterFilter, changes: String? = nil, limit: Int = Self.limit) {
        self.filter = filter
        self.changes = changes
        self.limit = limit
    }

    /// Takes dead letters of the changes at these places, too.
    public mutating func take(changesAt places: [KafkaPosition]) {
        // A negative offset is not known.
        for place in places where place.offset >= 0 {
            self.filter.places?.insert(DeadLetterPosition(partition: place.partition, offset: place.offset))
        }
    }

    /// Returns the ranges of the topic that were not read, and counts them as read.
    ///
    /// - Parameter bounds: the present bounds of the topic.
    public mutating func readOn(to bounds: [OffsetRange]) -> [OffsetRange] {
        bounds.compactMap { now in
            let first = max(now.first, self.ends[now.partition] ?? 0)
            self.ends[now.partition] = now.end
            return first < now.end ? OffsetRange(partition: now.partition, first: first, end: now.end) : nil
        }
    }

    public mutating func add(_ reading: DeadLetterRecord.Reading) {
        switch reading {
        case .other: self.others += 1
        case .note(let identity):
            if self.notes.count < self.limit { self.notes.insert(identity) } else { self.isOverfull = true }
        case .purge(let identity, let purge):
            if self.purges.count < self.limit { self.purges[identity] = purge } else { self.isOverfull = true }
        case .letter(let letter):
            let isOfChange = self.changes == nil || letter.sourceTopic == self.changes
            if self.filter.matches(letter), self.filter.places == nil || isOfChange { self.add(letter) }
        }
    }

    private mutating func add(_ letter: DeadLetterRecord) {
        let identity = letter.identity
        if let index = self.byIdentity[identity] {
            // Indices of `entries` were put in below, and none is ever removed.
            self.entries[Int(index)].copies += 1
            if letter.position < self.entries[Int(index)].position {
                self.entries[Int(index)].position = letter.position
                self.entries[Int(index)].milliseconds = letter.record.timestampMilliseconds
            }
            return
        }
        guard self.entries.count < self.limit else {
            self.isOverfull = true
            return
        }
        self.byIdentity[identity] = Int32(self.entries.count)
        let isElsewhere = self.changes.map { letter.sourceTopic != nil && letter.sourceTopic != $0 } ?? false
        self.entries.append(
            Entry(
                identity: identity, formerIdentity: letter.formerIdentity, position: letter.position,
                milliseconds: letter.record.timestampMilliseconds, order: letter.orderHash,
                source: isElsewhere ? nil : letter.source, isElsewhere: isElsewhere,
                code: self.index(of: letter.code),
                isOmitted: letter.isOmitted, isPush: letter.isPush, isOfSource: letter.isOfSource))
    }

    /// Returns the index of a code. The services know some twenty; other writers of the topic must not grow the list
    /// without bound.
    private mutating func index(of code: String) -> Int {
        let code = self.codes.count < 100 ? code : "other"
        if let index = self.codes.firstIndex(of: code) { return index }
        self.codes.append(code)
        return self.codes.count - 1
    }

    /// Forgets all dead letters but one and its duplicates.
    mutating func keepOnly(_ identity: UInt64) {
        self.entries.removeAll { $0.identity != identity }
        self.byIdentity = self.entries.isEmpty ? [:] : [identity: 0]
    }

    /// Forgets the dead letters that were closed.
    public mutating func leaveOutPurged() {
        guard !self.purges.isEmpty else { return }
        self.entries = self.entries.filter { self.purge(of: $0) == nil }
        self.byIdentity = [:]
        // No more than `limit` entries, which is far below Int32.max.
        for (index, entry) in self.entries.enumerated() { self.byIdentity[entry.identity] = Int32(index) }
    }

    /// The dead letters for which something is left to do: neither replayed nor closed, and not notifications, for
    /// which nothing can be done.
    public var open: [Entry] { self.entries.filter { !$0.isPush && !self.isReplayed($0) && self.purge(of: $0) == nil } }

    public func purge(of entry: Entry) -> DeadLetterPurge? {
        self.purges[entry.identity] ?? self.purges[entry.formerIdentity]
    }

    public func isReplayed(_ entry: Entry) -> Bool {
        self.notes.contains(entry.identity) || self.notes.contains(entry.formerIdentity)
    }

    /// The number of dead letters of each code, the most frequent code first.
    public var counts: [(code: String, letters: Int, replayed: Int)] {
        var counts = self.codes.map { (code: $0, letters: 0, replayed: 0) }
        for entry in self.entries {
            // Every entry's code is an index of `codes`.
            counts[entry.code].letters += 1
            if self.isReplayed(entry) { counts[entry.code].replayed += 1 }
        }
        // Codes of which all are closed have none.
        return counts.filter { $0.letters > 0 }.sorted { ($1.letters, $0.code) < ($0.letters, $1.code) }
    }

    /// Returns the newest dead letters, newest last.
    public func newest(_ limit: Int) -> [Entry] {
        let sorted = self.entries.sorted {
            ($0.milliseconds, $0.position) < ($1.milliseconds, $1.position)
        }
        return Array(sorted.suffix(limit))
    }
}
