extension KafkaReader {
    /// Partitions that are read concurrently.
    private static let concurrency = 8

    /// Returns the bounds of a topic's partitions; none if there is no such topic.
    public func boundsIfKnown(of topic: String) async throws(KafkaError) -> [OffsetRange] {
        do {
            return try await self.bounds(of: topic)
        } catch {
            guard error.code == .unknownTopic else { throw error }
            return []
        }
    }

    /// Reads ranges of a topic: those of one partition one after another, and some partitions at a time.
    ///
    /// - Parameters:
    ///   - records: the most records of a batch.
    ///   - take: gets each batch; those of one partition in their order.
    /// - Throws: `KafkaError`, as reading a partition does.
    public func read(
        _ ranges: [OffsetRange], of topic: String, records: Int = 1000,
        _ take: @escaping @Sendable ([KafkaRecord]) -> Void
    ) async throws {
        let partitions = Dictionary(grouping: ranges, by: \.partition).sorted { $0.key < $1.key }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, (partition, ranges)) in partitions.enumerated() {
                if index >= Self.concurrency { _ = try await group.next() }
                group.addTask {
                    for range in ranges {
                        try await self.read(
                            topic, partition: partition, from: range.first, to: range.end, records: records,
                            bytes: 1 << 20
                        ) { take($0) }
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}
