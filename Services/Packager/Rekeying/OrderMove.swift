import Kafka
import Model
import Operations
import Store

/// Moves orders out of a partition of `waybill.orders` that is no longer theirs.
///
/// An existing order is published to the new partition as it is, under the version that it has: Redis gets the place of
/// that record and nothing else, so a cold order stays cold. The tombstone in the old partition is marked as one of a
/// move, which a restore skips. For a reader that does not know the mark it carries the version before the one that is
/// published: whichever of the two it reads first, the order is kept.
struct OrderMove: Sendable {
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
        var live: [OrderStore.StoredOrder] = []
        let keys = Array(old.keys)
        for (key, result) in zip(keys, try await self.store.orders(keys)) {
            switch result {
            case .failure(let error):
                guard error.isOfOneOrder else { throw error }
                if error.code == .unread { tally.unread += 1 } else { tally.left += 1 }
            case .success(let stored?) where !stored.state.isRemoved: live.append(stored)
            case .success(let stored):
                // If the trace is gone, the tombstone ends what the partition has, but no later order.
                guard let last = stored?.state ?? old[key] else { continue }
                tally.ended += 1
                ends.append(self.end(last, partition, versions: stored == nil ? 1 : 0))
            }
        }
        let unread = try await VersionPublisher(topics: self.topics, store: self.store, producer: self.run.producer)
            .announce(live, silent: Set(live.map(\.state.key)))
        let moved = live.filter { unread[$0.state.key] == nil }
        tally.moved = moved.count
        tally.unread += unread.count
        ends += moved.map { self.end($0.state, partition, versions: -1, [OrderMove.mark]) }
        // Last: without the announced versions, these tombstones would remove orders that exist.
        try await self.run.produce(ends)
        return tally
    }

    private static let mark = KafkaHeader(.moved, text: "1")

    /// Returns the tombstone for the old partition.
    ///
    /// It carries a version and no timestamp, so it ends lower versions only, whenever it is written.
    /// - Parameter versions: the number to add to the state's version.
    private func end(
        _ state: OrderState, _ partition: Int32, versions: Int64, _ headers: [KafkaHeader] = []
    ) -> KafkaMessage {
        var past = state
        past.version = state.version.addingReportingOverflow(versions).partialValue
        past.document = .empty
        past.contributions = nil
        past.isRemoved = true
        return KafkaMessage(
            topic: self.topics.orders, partition: partition, key: Array(state.key.description.utf8), value: nil,
            headers: RemovedOrder.headers(of: past) + [OrderRecord.silence] + headers)
    }
}
