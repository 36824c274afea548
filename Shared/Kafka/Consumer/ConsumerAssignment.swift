/// The partitions this consumer owns now, and how far each was handed out since it came.
///
/// Decides which commits go through. A position counts only if it lies in what was handed out under the present
/// assignment: a late commit for a partition that left, or left and came back, cannot move an offset backwards, and
/// nothing that was never read is skipped. Positions of one partition may come in any order from several workers;
/// the highest wins.
struct ConsumerAssignment {
    private struct Progress {
        /// Offset of the first record handed out; nil until one was.
        var first: Int64?
        /// The next offset after the last record handed out.
        var next: Int64 = 0
        var committed: Int64 = -1
    }

    private var progress: [KafkaPartition: Progress] = [:]

    var partitions: [KafkaPartition] {
        self.progress.keys.sorted { ($0.topic, $0.partition) < ($1.topic, $1.partition) }
    }

    mutating func add(_ partitions: some Sequence<KafkaPartition>) {
        for partition in partitions { self.progress[partition] = Progress() }
    }

    mutating func remove(_ partitions: some Sequence<KafkaPartition>) {
        for partition in partitions { self.progress[partition] = nil }
    }

    func contains(_ partition: KafkaPartition) -> Bool { self.progress[partition] != nil }

    /// Notes a batch that goes to the worker.
    mutating func handedOut(_ batch: [KafkaRecord]) {
        for record in batch {
            let partition = KafkaPartition(topic: record.topic, partition: record.partition)
            guard var progress = self.progress[partition] else { continue }
            if progress.first == nil { progress.first = record.offset }
            progress.next = record.next.offset
            self.progress[partition] = progress
        }
    }

    /// The positions that may be committed, one a partition.
    func committable(_ positions: [KafkaPosition]) -> [KafkaPosition] {
        var highest: [KafkaPartition: Int64] = [:]
        for position in positions {
            let partition = KafkaPartition(topic: position.topic, partition: position.partition)
            guard let progress = self.progress[partition], let first = progress.first,
                position.offset > first, position.offset <= progress.next, position.offset > progress.committed
            else { continue }
            highest[partition] = max(highest[partition] ?? 0, position.offset)
        }
        return highest.map { KafkaPosition(topic: $0.key.topic, partition: $0.key.partition, offset: $0.value) }
            .sorted { ($0.topic, $0.partition) < ($1.topic, $1.partition) }
    }

    /// Notes what the broker has acknowledged, so that an older position is left out later.
    mutating func committed(_ positions: [KafkaPosition]) {
        for position in positions {
            let partition = KafkaPartition(topic: position.topic, partition: position.partition)
            guard let known = self.progress[partition]?.committed else { continue }
            self.progress[partition]?.committed = max(known, position.offset)
        }
    }
}
