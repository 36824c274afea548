import Kafka

/// Decides which records are taken in hand and which are deferred: those of a group that has its share, or that waits
/// as a whole, and those of a key that has as much as fits into a batch. No Kafka, no clock, no task.
struct WorkIntake: Sendable {
    var queue: KeyQueue
    private(set) var groups = KeyGroups()
    private(set) var deferred = DeferredRecords()

    init(limits: KeyQueue.Limits) { self.queue = KeyQueue(limits: limits) }

    /// The amount that may be requested; nothing if a bound is 0.
    ///
    /// Groups that share capacity keep requesting records, since those after a backlog may be of another group.
    var room: (records: Int, bytes: Int) {
        let room = self.queue.room
        guard self.groups.isShared else { return room }
        return (max(room.records, 256), max(room.bytes, 1 << 20))
    }

    /// Sets the present groups, and which of them wait.
    mutating func update(_ groups: [KeyGroup]) {
        self.groups.update(groups, unknownWait: self.deferred.counts[KeyGroups.unknown] != nil)
    }

    /// Adds records, or defers them; those of one partition in order.
    ///
    /// - Returns: the report for the consumer.
    mutating func add(_ records: [KafkaRecord]) -> KafkaDeferral {
        var deferral = KafkaDeferral()
        for record in records {
            let group = self.groups.number(of: record.key)
            guard let unit = self.unit(taking: record, group, &deferral) else { continue }
            let partition = KafkaPartition(topic: record.topic, partition: record.partition)
            self.deferred.add(record, to: unit, group: group, in: partition)
            deferral.putOff.append(record.receipt)
            deferral.holds.updateValue(nil, forKey: partition)
        }
        self.hold(&deferral)
        return deferral
    }

    /// Takes a record in hand, or returns the unit that it is added to.
    private mutating func unit(
        taking record: KafkaRecord, _ group: Int, _ deferral: inout KafkaDeferral
    ) -> DeferredRecords.Unit? {
        if !self.deferred.isEmpty {
            let partition = KafkaPartition(topic: record.topic, partition: record.partition)
            if self.deferred.isPast(record.offset, in: partition) {
                self.deferred.forget([partition], isGone: true)
                deferral.holds.updateValue(nil, forKey: partition)
            }
            if let unit = self.deferred.unit(of: record.key, group: group, in: partition) { return unit }
        }
        if self.groups.reason(group) != nil { return .group(group) }
        let mayWaitAlone = self.deferred.keyCount < DeferredRecords.keyLimit
        let isShared = self.groups.isShared
        switch self.queue.add(record, group: group, isShared: isShared, isKeyBounded: mayWaitAlone) {
        case .taken: return nil
        case .full: return .group(group)
        case .keyIsFull: return record.key.map { .key($0) } ?? .group(group)
        }
    }

    /// Drops the records of partitions that left.
    ///
    /// - Returns: records that will not be processed, of those that are in hand.
    mutating func drop(_ partitions: Set<KafkaPartition>) -> [KafkaRecord] {
        self.deferred.forget(partitions, isGone: false)
        return self.queue.drop(partitions)
    }

    // MARK: reading again

    /// Returns the next partition to read again; nil: no unit has room.
    mutating func nextPass() -> DeferredRecords.Pass? {
        if self.deferred.isEmpty { return nil }
        let (queue, groups) = (self.queue, self.groups)
        return self.deferred.nextPass { unit, group in
            guard groups.reason(group) == nil, queue.isHalfEmpty(group, isShared: groups.isShared) else { return false }
            guard case .key(let key) = unit else { return true }
            return queue.isHalfEmpty(key)
        }
    }

    /// Adds records that a pass has read, in order and without a gap since the last records of the pass.
    mutating func addAgain(_ records: [KafkaRecord], _ pass: inout DeferredRecords.Pass) -> KafkaDeferral {
        var deferral = KafkaDeferral()
        deferral.again = self.deferred.read(records, &pass, into: &self.queue, &self.groups).map(\.receipt)
        deferral.holds.updateValue(nil, forKey: pass.partition)
        self.hold(&deferral)
        return deferral
    }

    /// Notes that a pass has read everything up to its end.
    mutating func readToTheEnd(_ pass: inout DeferredRecords.Pass) -> KafkaDeferral {
        self.deferred.readToTheEnd(&pass)
        return self.holding(pass.partition)
    }

    /// Ends a pass.
    mutating func end(_ pass: DeferredRecords.Pass) { self.deferred.end(pass) }

    /// Forgets the deferred records of a partition: they no longer exist, or it went to another member.
    mutating func forget(_ partition: KafkaPartition, isGone: Bool) -> KafkaDeferral {
        self.deferred.forget([partition], isGone: isGone)
        return self.holding(partition)
    }

    private func holding(_ partition: KafkaPartition) -> KafkaDeferral {
        var deferral = KafkaDeferral()
        deferral.holds.updateValue(nil, forKey: partition)
        self.hold(&deferral)
        return deferral
    }

    /// Fills in the holds of the partitions in the deferral.
    private func hold(_ deferral: inout KafkaDeferral) {
        for partition in deferral.holds.keys {
            deferral.holds.updateValue(self.deferred.first(of: partition), forKey: partition)
        }
    }
}
