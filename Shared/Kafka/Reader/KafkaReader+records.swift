extension KafkaReader {
    /// Reads single records by their offsets; those of different partitions at the same time.
    ///
    /// - Returns: one result for each, in order; nil if there is no record at the offset, because it was compacted, or
    ///   the topic was made anew.
    public func records(
        of topic: String, at places: [(partition: Int32, offset: Int64)]
    ) async -> [Result<KafkaRecord?, KafkaError>] {
        var results = [Result<KafkaRecord?, KafkaError>](repeating: .success(nil), count: places.count)
        var open = places.enumerated().sorted { $0.element < $1.element }
        while !open.isEmpty {
            var round: [Int32: Int] = [:]
            open.removeAll { index, place in
                guard round.count < Self.limit, round[place.partition] == nil else { return false }
                round[place.partition] = index
                return true
            }
            let indices = Array(round.values)
            for (index, result) in zip(indices, await self.round(of: topic, at: indices.map { places[$0] })) {
                results[index] = result
            }
        }
        return results
    }

    /// Reads records of different partitions.
    private func round(
        of topic: String, at places: [(partition: Int32, offset: Int64)]
    ) async -> [Result<KafkaRecord?, KafkaError>] {
        do throws(KafkaError) {
            return try await self.line.run { () throws(KafkaError) in
                var reads = places.map { SingleRead(topic, $0, of: self) }
                defer { for read in reads { read.end(of: self) } }
                return reads.indices.map { index in Result { () throws(KafkaError) in try reads[index].finish() } }
            }
        } catch {
            return places.map { _ in .failure(error) }
        }
    }
}

/// The read of a single record.
private struct SingleRead {
    /// The milliseconds after which the thread of a broker is woken again.
    private static let turn: Int32 = 5

    private let name: KafkaPartition
    private let fetch: Result<PartitionFetch, KafkaError>
    private var progress: ReadProgress

    /// Starts to fetch a record.
    init(_ topic: String, _ place: (partition: Int32, offset: Int64), of reader: KafkaReader) {
        let name = KafkaPartition(topic: topic, partition: place.partition)
        self.name = name
        self.progress = ReadProgress(
            name: name.description, from: place.offset, to: place.offset &+ 1, patience: reader.patience, now: .now)
        self.fetch = Result { () throws(KafkaError) in
            try reader.begin(name)
            do throws(KafkaError) {
                let fetch = try PartitionFetch(
                    reader.handle, topic: topic, partition: place.partition, wakeup: reader.wakeup)
                do throws(KafkaError) {
                    try fetch.start(at: place.offset)
                } catch {
                    fetch.stop()
                    throw error
                }
                return fetch
            } catch {
                reader.end(name)
                throw error
            }
        }
    }

    /// Ends the fetching. Call it exactly once.
    func end(of reader: KafkaReader) {
        guard case .success(let fetch) = self.fetch else { return }
        fetch.stop()
        reader.end(self.name)
    }

    /// Waits for the record; nil if there is none.
    mutating func finish() throws(KafkaError) -> KafkaRecord? {
        let fetch = try self.fetch.get()
        do throws(KafkaError) {
            while true {
                try self.progress.check(now: .now)
                let record = try fetch.take(&self.progress, records: 1, bytes: 1, wait: Self.turn).first
                if record != nil || self.progress.isDone || self.progress.isAtEnd { return record }
                // Its broker may have been busy, or have become another one.
                fetch.wake()
            }
        } catch {
            // The offset is outside of the partition.
            guard error.code == .outOfRange else { throw error }
            return nil
        }
    }
}
