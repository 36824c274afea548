import Kafka
import Model
import Synchronization

/// The parked keys, shared by the code that parks them, looks them up, writes them to the pending topic, and drops
/// those of revoked partitions.
///
/// Owner: the worker. Thread: any. Under the lock nothing is called but `Parking` and the bodies of `with`. Bounded: by
/// `Parking`.
final class PushParking: Sendable {
    private let state: Mutex<Parking>

    init(limits: PushLimits, topics: Topics) {
        let parking = Parking(
            Parking.Limits(keys: limits.parkedKeys, records: limits.parkedRecords, pending: limits.pendingKeys),
            pendingTopic: topics.pushPending)
        self.state = Mutex(parking)
    }

    /// The number of records of shared topics that may be added.
    var room: Int { self.state.withLock { $0.room } }
    /// The number of records of the pending topic that may be added.
    var pendingRoom: Int { self.state.withLock { $0.pendingRoom } }
    /// True if records of the pending topic were taken out and are not done.
    var hasTaken: Bool { self.state.withLock { $0.hasTaken } }
    /// The order types with parked records.
    var types: [OrderTypeIdentifier] { self.state.withLock { $0.isEmpty ? [] : Array($0.counts.keys) } }
    /// Records of shared topics that are parked.
    var recordCount: Int { self.state.withLock { $0.recordCount } }
    /// Keys of each order type.
    var counts: [OrderTypeIdentifier: Int] { self.state.withLock { $0.counts } }

    /// Removes from a batch the records that must wait: those of some order types, and those of keys that are parked
    /// already.
    ///
    /// - Returns: the entries to be parked, and their records as indices of the batch.
    func setAside(
        _ batch: inout PushBatch, of types: Set<OrderTypeIdentifier>
    ) -> [(push: ParkedPush, records: [Int])] {
        self.state.withLock { parking in
            if parking.isEmpty, types.isEmpty { return [] }
            return batch.setAside { types.contains($0.order.orderType) || parking.contains($0) }
        }
    }

    /// - Parameter due: the time from which they may be looked up; nil: as soon as there is room.
    /// - Returns: records of the pending topic that are done, since there are newer ones of their keys.
    @discardableResult
    func park(_ pushes: [ParkedPush], due: ContinuousClock.Instant? = nil) -> [KafkaReceipt] {
        let now = ContinuousClock.now
        return self.state.withLock { parking in pushes.compactMap { parking.park($0, due: due, now: now) } }
    }

    /// Takes out the keys whose devices are looked up next: see `Parking.take`.
    func take(_ openings: [OrderTypeIdentifier: Int], records: Int, now: ContinuousClock.Instant) -> [ParkedPush] {
        self.state.withLock { $0.take(openings, records: records, now: now) }
    }

    /// Drops the records of revoked partitions.
    ///
    /// - Returns: their records that will not be finished here.
    func drop(_ partitions: Set<KafkaPartition>) -> [KafkaReceipt] { self.state.withLock { $0.drop(partitions) } }

    /// Runs `body` with the parked keys; it must not block.
    func with<Value: Sendable>(_ body: (inout sending Parking) -> sending Value) -> Value {
        self.state.withLock { body(&$0) }
    }
}
