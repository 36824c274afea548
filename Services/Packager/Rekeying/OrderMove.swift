import Kafka
import Model
import Store

/// Moves orders out of a partition of `waybill.orders` that is no longer theirs.
///
/// An existing order gets a version two higher, with the same package. The tombstone in the old partition carries the
/// version in between, which is above all that this partition ever had and below the one that is published to the new
/// partition. Whichever of the two a restore reads first, the order is kept, and one that is removed later stays
/// removed.
struct OrderMove: Sendable {
    /// The most rounds of moving orders that another process keeps writing.
    private static let conflictLimit = 10

    let run: RekeyRun
    let store: OrderStore
    let topics: Topics

    func move(_ values: [[UInt8]: [UInt8]], from partition: Int32) async throws -> RekeyTally {
        var tally = RekeyTally()
        /// The orders' states in the old partition.
        var old: [OrderKey: OrderState] = [:]
        for (bytes, value) in values {
            if let key = try? OrderKey(String(decoding: bytes, as: UTF8.self)),
                let record = try? OrderRecord.decode(value)
            {
                old[key] = record.state(key: key)
            } else {
                tally.left += 1
            }
        }
        var ends: [KafkaMessage] = []
        var renumbered: [OrderKey] = []
        var open = Array(old.keys)
        var round = 0
        while !open.isEmpty {
            round += 1
            guard round <= Self.conflictLimit else {
                throw RetriableFailure(description: "moving \(open.count) orders: another writer keeps changing them")
            }
            var writes: [OrderStore.Write] = []
            for (key, result) in zip(open, try await self.store.orders(open)) {
                switch result {
                case .failure(let error):
                    guard error.isOfOneOrder else { throw error }
                    tally.left += 1
                case .success(let stored?) where !stored.state.isRemoved:
                    guard stored.state.version <= OrderState.versionRange.upperBound - 2 else {
                        tally.left += 1
                        continue
                    }
                    var next = stored.state
                    next.version += 2
                    writes.append(
                        OrderStore.Write(
                            state: next, after: stored, content: .renumbered(isPublished: stored.isPublished)))
                case .success(let stored):
                    // If the trace is gone, the tombstone ends what the partition has, but no later order.
                    guard let last = stored?.state ?? old[key] else { continue }
                    tally.ended += 1
                    ends.append(self.end(last, partition, versions: stored == nil ? 1 : 0))
                }
            }
            open = []
            for (write, outcome) in zip(writes, try await self.store.write(writes)) {
                switch outcome {
                case .written:
                    renumbered.append(write.key)
                    if let state = write.state { ends.append(self.end(state, partition, versions: -1)) }
                case .conflict: open.append(write.key)
                case .refused(let message):
                    throw RetriableFailure(description: "moving order \(write.key): \(message)")
                }
            }
        }
        tally.moved += renumbered.count
        try await VersionPublisher(topics: self.topics, store: self.store, producer: self.run.producer)
            .announce(renumbered, silent: Set(renumbered))
        // Last: without the announced versions, these tombstones would remove orders that exist.
        try await self.run.produce(ends)
        return tally
    }

    /// Returns the tombstone for the old partition.
    ///
    /// It carries a version and no timestamp, so it ends lower versions only, whenever it is written.
    /// - Parameter versions: the number to add to the state's version.
    private func end(_ state: OrderState, _ partition: Int32, versions: Int64) -> KafkaMessage {
        var past = state
        past.version = state.version.addingReportingOverflow(versions).partialValue
        past.document = .empty
        past.contributions = nil
        past.isRemoved = true
        return KafkaMessage(
            topic: self.topics.orders, partition: partition, key: Array(state.key.description.utf8), value: nil,
            headers: RemovedOrder.headers(of: past) + [OrderRecord.silence])
    }
}
