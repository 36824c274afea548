import Kafka

extension PushStateMachine {
    /// Drops the waiting records of revoked partitions. Notifications in flight still get their verdicts.
    ///
    /// - Returns: the records that will not be finished here, including those dropped since the last call.
    mutating func drop(_ partitions: Set<KafkaPartition>) -> [KafkaReceipt] {
        var isAny = false
        for index in self.records.indices where self.records[index].open > 0 && !self.records[index].isDropped {
            let receipt = self.records[index].receipt
            let partition = KafkaPartition(topic: receipt.topic, partition: receipt.partition)
            guard partitions.contains(partition) else { continue }
            self.records[index].isLeaving = true
            isAny = true
        }
        if isAny {
            for slot in self.targets.indices where !self.targets[slot].waiting.isEmpty { self.dropWaiting(slot) }
            // A lookup in progress may still find devices.
            for index in self.records.indices where self.records[index].isLeaving && self.records[index].isLooking {
                self.letGo(index)
            }
        }
        // Records of other topics belong to another consumer, which must get them from its own call.
        let topics = Set(partitions.map(\.topic))
        let dropped = self.lateDrops.filter { topics.isEmpty || topics.contains($0.topic) }
        self.lateDrops.removeAll { topics.isEmpty || topics.contains($0.topic) }
        return dropped
    }

    /// Removes the links of leaving records from a target's waiting links, and the target if nothing is left.
    ///
    /// - Returns: false if this removed the last waiting link.
    @discardableResult
    mutating func dropWaiting(_ slot: Int) -> Bool {
        let leaving = self.targets[slot].waiting.filter { self.records[Int($0.record)].isLeaving }
        guard !leaving.isEmpty else { return true }
        let staying = self.targets[slot].waiting.filter { !self.records[Int($0.record)].isLeaving }
        self.targets[slot].waiting = staying
        for link in leaving { self.letGo(Int(link.record)) }
        self.end(leaving, of: slot)
        guard staying.isEmpty else { return true }
        let place = self.targets[slot].place
        if place == .waiting || place == .ready { self.remove(slot) }
        return false
    }

    /// Drops a record: no further device is notified for it.
    mutating func letGo(_ index: Int) {
        guard self.records[index].open > 0, !self.records[index].isDropped else { return }
        self.records[index].isDropped = true
        self.lateDrops.append(self.records[index].receipt)
    }
}
