import Kafka

/// Deferred records, to be read again: for each group, or single key, and each partition, the span of offsets from the
/// first to the last, without keys and values.
///
/// While a group or key has a span in a partition, all of its further records there are added to the span, so its order
/// is kept. A span of a group holds records that came after all of those in the spans of its keys.
/// Bounded by groups × partitions and `keyLimit`, however many records there are.
struct DeferredRecords: Sendable {
    /// A group or a key that waits by itself.
    enum Unit: Hashable, Sendable {
        case group(Int)
        case key([UInt8])
    }

    /// Offsets of a unit that have yet to be read again.
    struct Span: Hashable, Sendable {
        var next: Int64
        var last: Int64
        /// The number of records that it holds.
        var count = 1
        /// The group it belongs to.
        let group: Int
    }

    /// One reading of a partition, for all units that have room for records.
    struct Pass: Hashable, Sendable {
        let partition: KafkaPartition
        let from: Int64
        /// The first offset that is not read.
        let to: Int64
        fileprivate let number: UInt64
        /// Units whose records are taken from this reading.
        fileprivate(set) var units: Set<Unit>
        /// True if no unit takes records from it any more.
        var isOver: Bool { self.units.isEmpty }
    }

    private struct Place {
        var spans: [Unit: Span] = [:]
        /// A record that was deferred: identifies the assignment.
        let receipt: KafkaReceipt
        /// The last offset that was deferred.
        var last: Int64
        /// The pass in progress.
        var pass: UInt64?
        /// The time of its last reading, as the number of the pass.
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

    /// Returns the unit that a new record is added to, if its group or key waits in its partition.
    func unit(of key: [UInt8]?, group: Int, in partition: KafkaPartition) -> Unit? {
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
    mutating func add(_ record: KafkaRecord, to unit: Unit, group: Int, in partition: KafkaPartition) {
        var place =
            self.places.removeValue(forKey: partition)
            ?? Place(receipt: record.receipt, last: record.offset, turn: self.turn)
        self.extend(&place, unit, to: record.offset, group: group)
        place.last = max(place.last, record.offset)
        self.places[partition] = place
    }

    /// Forgets the deferred records of some partitions.
    ///
    /// - Parameter isGone: true if they no longer exist; false if they belong to another member.
    mutating func forget(_ partitions: some Sequence<KafkaPartition>, isGone: Bool) {
        for partition in partitions {
            guard let place = self.places.removeValue(forKey: partition) else { continue }
            for (unit, span) in place.spans {
                self.count(span.group, -span.count)
                if isGone { self.gone += span.count }
                if case .key = unit { self.keyCount -= 1 }
            }
        }
    }

    // MARK: reading again

    /// Returns the next partition to read, the one not read for the longest time; nil: no unit has room.
    ///
    /// - Parameter isReady: returns true if there is room for records of a unit, whose group is the other value.
    mutating func nextPass(isReady: (Unit, Int) -> Bool) -> Pass? {
        var best: (partition: KafkaPartition, units: [Unit: Span], turn: UInt64)?
        for (partition, place) in self.places where place.pass == nil && place.turn < best?.turn ?? .max {
            let units = place.spans.filter { isReady($0.key, $0.value.group) }
            if !units.isEmpty { best = (partition, units, place.turn) }
        }
        guard let best, let from = best.units.values.map(\.next).min(), let last = best.units.values.map(\.last).max()
        else { return nil }
        self.turn += 1
        self.places[best.partition]?.pass = self.turn
        self.places[best.partition]?.turn = self.turn
        return Pass(
            partition: best.partition, from: from, to: last + 1, number: self.turn, units: Set(best.units.keys))
    }

    /// Processes records that were read again, in order and without a gap since the last ones of the pass.
    ///
    /// A unit without room leaves the pass; it continues from there in another one.
    /// - Returns: the records taken in hand.
    mutating func read(
        _ records: [KafkaRecord], _ pass: inout Pass, into queue: inout KeyQueue, _ groups: inout KeyGroups
    ) -> [KafkaRecord] {
        guard let end = records.last.map({ $0.offset + 1 }), var place = self.takePlace(of: &pass) else { return [] }
        var taken: [KafkaRecord] = []
        for record in records {
            let number = groups.number(of: record.key)
            let record = record.handedOut(with: place.receipt)
            let isOfGroup = self.isDue(record, of: .group(number), place, pass)
            guard isOfGroup || self.isDueAlone(record, place, pass) else { continue }
            if isOfGroup, let key = record.key, place.spans[.key(key)] != nil, !pass.units.contains(.key(key)) {
                // Earlier records of the key wait by themselves.
                self.move(&place, .group(number), after: record.offset)
                self.extend(&place, .key(key), to: record.offset, group: number)
                continue
            }
            let unit = isOfGroup ? Unit.group(number) : .key(record.key ?? [])
            let isKeyBounded = !isOfGroup || self.keyCount < Self.keyLimit
            switch queue.add(record, group: number, isShared: groups.isShared, isKeyBounded: isKeyBounded) {
            case .taken:
                taken.append(record)
                self.move(&place, unit, after: record.offset)
            case .full: self.stop(&place, unit, at: record.offset, &pass)
            case .keyIsFull:
                guard isOfGroup, let key = record.key else {
                    self.stop(&place, unit, at: record.offset, &pass)
                    continue
                }
                self.move(&place, unit, after: record.offset)
                // If the key waits by itself, all before this one were taken in this pass.
                self.extend(&place, .key(key), to: record.offset, group: number)
                self.stop(&place, .key(key), at: record.offset, &pass)
            }
        }
        self.finish(place, &pass, at: end)
        return taken
    }

    /// Completes a pass that has reached its end: records that it did not show no longer exist.
    mutating func readToTheEnd(_ pass: inout Pass) {
        guard let place = self.takePlace(of: &pass) else { return }
        self.finish(place, &pass, at: pass.to)
    }

    /// Ends a pass.
    mutating func end(_ pass: Pass) {
        if self.places[pass.partition]?.pass == pass.number { self.places[pass.partition]?.pass = nil }
    }

    /// Removes the place that a pass reads from the dictionary, so that it is changed and not copied; nil: it has left.
    private mutating func takePlace(of pass: inout Pass) -> Place? {
        guard self.places[pass.partition]?.pass == pass.number else {
            pass.units = []
            return nil
        }
        return self.places.removeValue(forKey: pass.partition)
    }

    private func isDueAlone(_ record: KafkaRecord, _ place: Place, _ pass: Pass) -> Bool {
        guard self.keyCount > 0, let key = record.key else { return false }
        return self.isDue(record, of: .key(key), place, pass)
    }

    private func isDue(_ record: KafkaRecord, of unit: Unit, _ place: Place, _ pass: Pass) -> Bool {
        guard pass.units.contains(unit), let span = place.spans[unit] else { return false }
        return span.next <= record.offset && record.offset <= span.last
    }

    /// Adds a record to a unit's span.
    private mutating func extend(_ place: inout Place, _ unit: Unit, to offset: Int64, group: Int) {
        self.count(group, 1)
        if place.spans[unit] != nil {
            place.spans[unit]?.last = offset
            place.spans[unit]?.count += 1
            return
        }
        place.spans[unit] = Span(next: offset, last: offset, group: group)
        if case .key = unit { self.keyCount += 1 }
    }

    /// Removes a record of a unit from its span.
    private mutating func move(_ place: inout Place, _ unit: Unit, after offset: Int64) {
        guard let span = place.spans[unit] else { return }
        place.spans[unit]?.next = offset + 1
        place.spans[unit]?.count -= 1
        self.count(span.group, -1)
    }

    private func stop(_ place: inout Place, _ unit: Unit, at offset: Int64, _ pass: inout Pass) {
        place.spans[unit]?.next = offset
        pass.units.remove(unit)
    }

    /// Advances all units that are still in the pass: their records before an offset were processed.
    private mutating func finish(_ changed: Place, _ pass: inout Pass, at end: Int64) {
        var place = changed
        for unit in pass.units {
            guard let span = place.spans[unit] else {
                pass.units.remove(unit)
                continue
            }
            guard span.last < end else {
                place.spans[unit]?.next = max(span.next, end)
                continue
            }
            self.gone += span.count
            self.count(span.group, -span.count)
            place.spans[unit] = nil
            if case .key = unit { self.keyCount -= 1 }
            pass.units.remove(unit)
        }
        self.places[pass.partition] = place.spans.isEmpty ? nil : place
    }

    private mutating func count(_ group: Int, _ change: Int) {
        let count = self.counts[group, default: 0] + change
        self.counts[group] = count == 0 ? nil : count
    }
}
