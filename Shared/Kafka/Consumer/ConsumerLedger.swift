/// The partitions this consumer owns now, and what of each is done.
///
/// Decides what is committed: of each partition the contiguous prefix that is done, never of a partition that left. A
/// late result of one that left, or left and came back, moves nothing.
struct ConsumerLedger {
    private var ledgers: [KafkaPartition: PartitionLedger] = [:]
    /// The number of the last assignment; records carry the one under which they were read.
    private(set) var assignment: UInt64 = 0
    /// How many records are in hand of all partitions that are owned.
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

    /// Notes records that go to the worker.
    mutating func handOut(_ records: [KafkaRecord]) {
        self.each(records.map(\.receipt)) { ledger, record in ledger.handOut(record.offset) }
    }

    /// Notes records whose work is done.
    mutating func finish(_ records: [KafkaReceipt]) {
        self.each(records) { ledger, record in ledger.finish(record.offset) }
    }

    /// Notes records that the worker will not do any more.
    mutating func letGo(_ records: [KafkaReceipt]) {
        self.each(records) { ledger, record in ledger.letGo(record.offset) }
    }

    /// Notes what the worker puts off and takes up again.
    mutating func note(_ deferral: KafkaDeferral) {
        // First what holds positions back, then what lets them go on.
        self.each(deferral.again) { ledger, record in ledger.handOutAgain(record.offset) }
        for (partition, offset) in deferral.holds { self.ledgers[partition]?.hold(offset) }
        self.each(deferral.putOff) { ledger, record in ledger.putOff(record.offset) }
    }

    /// True if a partition has been owned without a break since it was read under an assignment.
    func isOwned(_ partition: KafkaPartition, since assignment: UInt64) -> Bool {
        self.ledgers[partition].map { $0.assignment <= assignment } ?? false
    }

    /// How many records of some partitions are in hand.
    func inHand(of partitions: Set<KafkaPartition>) -> Int {
        partitions.reduce(0) { $0 + (self.ledgers[$1]?.inHand ?? 0) }
    }

    /// What the broker should know by now, one position a partition at most, sorted.
    var committable: [KafkaPosition] {
        self.ledgers.compactMap { partition, ledger in
            ledger.position.map {
                KafkaPosition(topic: partition.topic, partition: partition.partition, offset: $0)
            }
        }.sorted { ($0.topic, $0.partition) < ($1.topic, $1.partition) }
    }

    /// Notes what the broker acknowledged.
    ///
    /// - Parameter assignment: the last one when the positions were chosen.
    mutating func acknowledge(_ positions: [KafkaPosition], chosenIn assignment: UInt64) {
        for position in positions {
            let partition = KafkaPartition(topic: position.topic, partition: position.partition)
            guard let ledger = self.ledgers[partition], ledger.assignment <= assignment else { continue }
            self.ledgers[partition]?.acknowledge(position.offset)
        }
    }

    /// Does something for each record whose partition is owned under the record's assignment, looking each run of
    /// records of one partition up once.
    private mutating func each(_ records: [KafkaReceipt], _ body: (inout PartitionLedger, KafkaReceipt) -> Void) {
        var index = 0
        while index < records.count {
            let (topic, number) = (records[index].topic, records[index].partition)
            let partition = KafkaPartition(topic: topic, partition: number)
            let start = index
            while index < records.count, records[index].partition == number, records[index].topic == topic {
                index += 1
            }
            // Taken out, so that it is changed in its place and not copied.
            guard var ledger = self.ledgers.removeValue(forKey: partition) else { continue }
            self.inHand -= ledger.inHand
            for record in records[start..<index] where record.assignment >= ledger.assignment { body(&ledger, record) }
            self.inHand += ledger.inHand
            self.ledgers[partition] = ledger
        }
    }
}
