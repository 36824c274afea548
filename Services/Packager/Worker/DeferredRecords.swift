import Kafka

/// Deferred records, to be read again: for each group, or single key, and each partition, the span of offsets from the
/// first to the last, without keys and values.
///
/// While a group or key has a span in a partition, all of its further records there are added to the span, so its order
/// is kept. A span of a group holds records that came after all of those in the spans of its keys.
/// Bounded by groups × partitions and `keyLimit`, however many records there are.
struct DeferredRecords: Sendable {
    /// The owner of deferred records: a group, or a key that waits by itself.
    enum Owner: Hashable, Sendable {
        case group(Int)
        case key([UInt8])
    }

    /// Offsets of an owner that have yet to be read again.
    struct Span: Hashable, Sendable {
        var next: Int64
        var last: Int64
        /// The number of records that it holds.
        var count = 1
        /// The group it belongs to.
        let group: Int
    }

    /// One reading of a partition, for all owners that have room for records.
    struct Reading: Hashable, Sendable {
        let partition: KafkaPartition
        let from: Int64
        /// The first offset that is not read.
        let to: Int64
        fileprivate let number: UInt64
        /// Owners whose records are taken from this reading.
        fileprivate(set) var owners: Set<Owner>
        /// True if no owner takes records from it any more.
        var isOver: Bool { self.owners.isEmpty }
    }

    private struct Place {
        var spans: [Owner: Span] = [:]
        /// A record that was deferred: identifies the assignment.
        let receipt: KafkaReceipt
        /// The last offset that was deferred.
        var last: Int64
        /// The reading in progress.
        var reading: UInt64?
        /// The number of its last reading.
        var turn: UInt64
    }

    /// Most keys that wait by themselves.
    static let keyLimit = 256

    private var places: [KafkaPartition: Place] = [:]
    private var turn: UInt64 = 0
    /// The number of keys that wait by themselves.
    private(set) var keyCount = 0
    /// The number of deferred records of each group, those of its keys included.
    private(set) var counts: [Int: Int] = [:]
    /// The number of records that no longer existed when they were to be read again.
    private(set) var gone = 0

    var isEmpty: Bool { self.places.isEmpty }

    /// The number of deferred records of each topic.
    var topics: [String: Int] {
        self.places.reduce(into: [:]) { topics, entry in
            topics[entry.key.topic, default: 0] += entry.value.spans.values.reduce(0) { $0 + $1.count }
        }
    }

    /// Returns the first deferred offset of a partition.
    func first(of partition: KafkaPartition) -> Int64? { self.places[partition]?.spans.values.map(\.next).min() }

    /// Returns the receipt of one of the deferred records of a partition.
    func receipt(of partition: KafkaPartition) -> KafkaReceipt? { self.places[partition]?.receipt }

    /// Returns the owner that a new record is added to, if its group or key waits in its partition.
    func owner(of key: [UInt8]?, group: Int, in partition: KafkaPartition) -> Owner? {
        guard let spans = self.places[partition]?.spans else { return nil }
        if spans[.group(group)] != nil { return .group(group) }
        guard self.keyCount > 0, let key, spans[.key(key)] != nil else { return nil }
        return .key(key)
    }

    /// Returns true if a new record lies before one that came earlier: its topic was recreated.
    func isPast(_ offset: Int64, in partition: KafkaPartition) -> Bool {
        self.places[partition].map { offset <= $0.last } ?? false
    }

    /// Defers a new record, which lies after all others of its partition.
    mutating func add(_ record: KafkaRecord, to owner: Owner, group: Int, in partition: KafkaPartition) {
        var place =
            self.places.removeValue(forKey: partition)
            ?? Place(receipt: record.receipt, last: record.offset, turn: self.turn)
        self.extend(&place, owner, to: record.offset, group: group)
        place.last = max(place.last, record.offset)
        self.places[partition] = place
    }

    /// Forgets the deferred records of some partitions.
    ///
    /// - Parameter isGone: true if they no longer exist; false if they belong to another member.
    mutating func forget(_ partitions: some Sequence<KafkaPartition>, isGone: Bool) {
        for partition in partitions {
            guard let place = self.places.removeValue(forKey: partition) else { continue }
            for (owner, span) in place.spans {
                self.count(span.group, -span.count)
                if isGone { self.gone += span.count }
                if case .key = owner { self.keyCount -= 1 }
            }
        }
    }

    // MARK: reading again

    /// Returns the next partition to read, the one not read for the longest time; nil: no owner has room.
    ///
    /// - Parameter isReady: returns true if there is room for records of an owner, whose group is the other value.
    mutating func nextReading(isReady: (Owner, Int) -> Bool) -> Reading? {
        var best: (partition: KafkaPartition, owners: [Owner: Span], turn: UInt64)?
        for (partition, place) in self.places where place.reading == nil && place.turn < best?.turn ?? .max {
            let owners = place.spans.filter { isReady($0.key, $0.value.group) }
            if !owners.isEmpty { best = (partition, owners, place.turn) }
        }
        guard let best, let from = best.owners.values.map(\.next).min(), let last = best.owners.values.map(\.last).max()
        else { return nil }
        self.turn += 1
        self.places[best.partition]?.reading = self.turn
        self.places[best.partition]?.turn = self.turn
        return Reading(
            partition: best.partition, from: from, to: last + 1, number: self.turn, owners: Set(best.owners.keys))
    }

    /// Processes records that were read again, in order and without a gap since the last ones of the reading.
    ///
    /// An owner without room leaves the reading; it continues from there in another one.
    /// - Returns: the records taken in hand.
    mutating func read(
        _ records: [KafkaRecord], _ reading: inout Reading, into queue: inout KeyQueue, _ groups: inout KeyGroups
    ) -> [KafkaRecord] {
        guard let end = records.last.map({ $0.offset + 1 }), var place = self.takePlace(of: &reading) else { return [] }
        var taken: [KafkaRecord] = []
        for record in records {
            let number = groups.number(of: record.key)
            let record = record.handedOut(with: place.receipt)
            let isOfGroup = self.isDue(record, of: .group(number), place, reading)
            guard isOfGroup || self.isDueAlone(record, place, reading) else { continue }
            if isOfGroup, let key = record.key, place.spans[.key(key)] != nil, !reading.owners.contains(.key(key)) {
                // Earlier records of the key wait by themselves.
                self.move(&place, .group(number), after: record.offset)
                self.extend(&place, .key(key), to: record.offset, group: number)
                continue
            }
            let owner = isOfGroup ? Owner.group(number) : .key(record.key ?? [])
            let isKeyBounded = !isOfGroup || self.keyCount < Self.keyLimit
            switch queue.add(record, group: number, isShared: groups.isShared, isKeyBounded: isKeyBounded) {
            case .taken:
                taken.append(record)
                self.move(&place, owner, after: record.offset)
            case .full: self.stop(&place, owner, at: record.offset, &reading)
            case .keyIsFull:
                guard isOfGroup, let key = record.key else {
                    self.stop(&place, owner, at: record.offset, &reading)
                    continue
                }
                self.move(&place, owner, after: record.offset)
                // If the key waits by itself, all before this one were taken in this reading.
                self.extend(&place, .key(key), to: record.offset, group: number)
                self.stop(&place, .key(key), at: record.offset, &reading)
            }
        }
        self.finish(place, &reading, at: end)
        return taken
    }

    /// Completes a reading that has reached its end: records that it did not show no longer exist.
    mutating func readToTheEnd(_ reading: inout Reading) {
        guard let place = self.takePlace(of: &reading) else { return }
        self.finish(place, &reading, at: reading.to)
    }

    /// Ends a reading.
    mutating func end(_ reading: Reading) {
        if self.places[reading.partition]?.reading == reading.number { self.places[reading.partition]?.reading = nil }
    }

    /// Removes a reading's place from the dictionary, so that it is changed and not copied; nil: it has left.
    private mutating func takePlace(of reading: inout Reading) -> Place? {
        guard self.places[reading.partition]?.reading == reading.number else {
            reading.owners = []
            return nil
        }
        return self.places.removeValue(forKey: reading.partition)
    }

    private func isDueAlone(_ record: KafkaRecord, _ place: Place, _ reading: Reading) -> Bool {
        guard self.keyCount > 0, let key = record.key else { return false }
        return self.isDue(record, of: .key(key), place, reading)
    }

    private func isDue(_ record: KafkaRecord, of owner: Owner, _ place: Place, _ reading: Reading) -> Bool {
        guard reading.owners.contains(owner), let span = place.spans[owner] else { return false }
        return span.next <= record.offset && record.offset <= span.last
    }

    /// Adds a record to an owner's span.
    private mutating func extend(_ place: inout Place, _ owner: Owner, to offset: Int64, group: Int) {
        self.count(group, 1)
        if place.spans[owner] != nil {
            place.spans[owner]?.last = offset
            place.spans[owner]?.count += 1
            return
        }
        place.spans[owner] = Span(next: offset, last: offset, group: group)
        if case .key = owner { self.keyCount += 1 }
    }

    /// Removes a record of an owner from its span.
    private mutating func move(_ place: inout Place, _ owner: Owner, after offset: Int64) {
        guard let span = place.spans[owner] else { return }
        place.spans[owner]?.next = offset + 1
        place.spans[owner]?.count -= 1
        self.count(span.group, -1)
    }

    private func stop(_ place: inout Place, _ owner: Owner, at offset: Int64, _ reading: inout Reading) {
        place.spans[owner]?.next = offset
        reading.owners.remove(owner)
    }

    /// Advances all owners that are still in the reading: their records before an offset were processed.
    private mutating func finish(_ changed: Place, _ reading: inout Reading, at end: Int64) {
        var place = changed
        for owner in reading.owners {
            guard let span = place.spans[owner] else {
                reading.owners.remove(owner)
                continue
            }
            guard span.last < end else {
                place.spans[owner]?.next = max(span.next, end)
                continue
            }
            self.gone += span.count
            self.count(span.group, -span.count)
            place.spans[owner] = nil
            if case .key = owner { self.keyCount -= 1 }
            reading.owners.remove(owner)
        }
        self.places[reading.partition] = place.spans.isEmpty ? nil : place
    }

    private mutating func count(_ group: Int, _ change: Int) {
        let count = self.counts[group, default: 0] + change
        self.counts[group] = count == 0 ? nil : count
    }
}
