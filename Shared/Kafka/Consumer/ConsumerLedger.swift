/// The partitions that this consumer owns, and the progress of each.
///
/// It decides what is committed: of each partition the contiguous prefix that is done, never of a partition that left.
/// A late result for a partition that left, even if it was assigned again, has no effect.
struct ConsumerLedger {
    private var ledgers: [KafkaPartition: PartitionLedger] = [:]
    /// The number of the last assignment; records carry the one under which they were read.
    private(set) var assignment: UInt64 = 0
    /// The number of records in hand, of all owned partitions.
    private(set) var inHand = 0

    var partitions: [KafkaPartition] {
        self.ledgers.keys.sorted { ($0.topic, $0.partition) < ($1.topic, $1.partition) }
    }

    mutating func add(_ partitions: some Sequence<KafkaPartition>) {
        self.assignment += 1
        self.remove(partitions)
        for partition in partitions { self.ledgers[partition] = PartitionLedger(assignment: self.assignment) }
    }

    mutating func remove(_ partitions: some Sequence<KafkaPartition>) {
        for partition in partitions {
            self.inHand -= self.ledgers.removeValue(forKey: partition)?.inHand ?? 0
        }
    }

    /// Notes records that are handed to the worker.
    mutating func handOut(_ records: [KafkaRecord]) {
        self.each(records.map(\.receipt)) { ledger, record in ledger.handOut(record.offset) }
    }

    /// Notes records whose work is done.
    mutating func finish(_ records: [KafkaReceipt]) {
        self.each(records) { ledger, record in ledger.finish(record.offset) }
    }

    /// Notes records that the worker will not process any more.
    mutating func letGo(_ records: [KafkaReceipt]) {
        self.each(records) { ledger, record in ledger.letGo(record.offset) }
    }

    /// Applies the worker's deferred and resumed records.
    mutating func apply(_ deferral: KafkaDeferral) {
        // First the changes that hold positions back, then those that release them.
        self.each(deferral.again) { ledger, record in ledger.handOutAgain(record.offset) }
        for (partition, offset) in deferral.holds { self.ledgers[partition]?.hold(offset) }
        self.each(deferral.putOff) { ledger, record in ledger.putOff(record.offset) }
    }

    /// Returns true if a partition has been owned without interruption since it was read under an assignment.
    func isOwned(_ partition: KafkaPartition, since assignment: UInt64) -> Bool {
        self.ledgers[partition].map { $0.assignment <= assignment } ?? false
    }

    /// Returns the number of records of some partitions that are in hand.
    func inHand(of partitions: Set<KafkaPartition>) -> Int {
        partitions.reduce(0) { $0 + (self.ledgers[$1]?.inHand ?? 0) }
    }

    /// The positions to be committed, at most one per partition, sorted.
    var committable: [KafkaPosition] {
        self.ledgers.compactMap { partition, ledger in
            ledger.position.map {
                KafkaPosition(topic: partition.topic, partition: partition.partition, offset: $0)
            }
        }.sorted { ($0.topic, $0.partition) < ($1.topic, $1.partition) }
    }

    /// Notes positions that the broker acknowledged.
    ///
    /// - Parameter assignment: the last one at the time when the positions were chosen.
    mutating func acknowledge(_ positions: [KafkaPosition], chosenIn assignment: UInt64) {
        for position in positions {
            let partition = KafkaPartition(topic: position.topic, partition: position.partition)
            guard let ledger = self.ledgers[partition], ledger.assignment <= assignment else { continue }
            self.ledgers[partition]?.acknowledge(position.offset)
        }
    }

    /// Calls `body` for each record whose partition is owned under the record's assignment, with one lookup for each
    /// run of records of one partition.
    private mutating func each(_ records: [KafkaReceipt], _ body: (inout PartitionLedger, KafkaReceipt) -> Void) {
        var index = 0
        while index < records.count {
            let (topic, number) = (records[index].topic, records[index].partition)
            let partition = KafkaPartition(topic: topic, partition: number)
            let start = index
            while index < records.count, records[index].partition == number, records[index].topic == topic {
                index += 1
            }
            // Removed, so that it is changed in place and not copied.
            guard var ledger = self.ledgers.removeValue(forKey: partition) else { continue }
            self.inHand -= ledger.inHand
            for record in records[start..<index] where record.assignment >= ledger.assignment { body(&ledger, record) }
            self.inHand += ledger.inHand
            self.ledgers[partition] = ledger
        }
    }
}
