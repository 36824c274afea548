import CoreMetrics
import Synchronization

/// The orders that do not exist yet, and the deadlines until which their updates wait.
///
/// The time runs from when this worker saw the first update; another worker that gets the partition starts over.
/// Bounded by `keyLimit` and `byteLimit`, a share of what a worker has in hand: an update that finds no room does not
/// wait.
final class UnknownOrders: Sendable {
    /// The most orders that are waited for.
    static let keyLimit = 2048
    /// The most bytes of records that wait.
    static let byteLimit = 4 << 20

    private struct Waiting {
        let deadline: ContinuousClock.Instant
        let bytes: Int
    }

    private let patience: Duration
    private let waiting = Mutex<[[UInt8]: Waiting]>([:])
    private let gauge: Gauge

    /// - Parameter patience: how long an update waits; zero: not at all.
    init(patience: Duration, gauge: Gauge) {
        self.patience = patience
        self.gauge = gauge
    }

    /// Decides whether the updates of an order that does not exist wait.
    ///
    /// - Parameter bytes: the bytes of all its records in hand.
    /// - Returns: the time that they still wait; nil if they wait no longer.
    func wait(_ key: [UInt8], bytes: Int, now: ContinuousClock.Instant) -> Duration? {
        guard self.patience > .zero else { return nil }
        return self.change { waiting in
            let known = waiting.removeValue(forKey: key)
            if known == nil, waiting.count >= Self.keyLimit {
                // Those that should have returned by now: their partition went to another worker.
                waiting = waiting.filter { $0.value.deadline + .seconds(10) >= now }
            }
            let deadline = known?.deadline ?? now + self.patience
            let others = waiting.values.reduce(0) { $0 + $1.bytes }
            guard deadline > now, waiting.count < Self.keyLimit, others + bytes <= Self.byteLimit else { return nil }
            waiting[key] = Waiting(deadline: deadline, bytes: bytes)
            return deadline - now
        }
    }

    /// Forgets orders that exist now, or of which nothing waits any more.
    func forget(_ keys: some Sequence<[UInt8]>) {
        self.change { waiting in
            if waiting.isEmpty { return }
            for key in keys { waiting[key] = nil }
        }
    }

    private func change<Value>(_ body: (inout [[UInt8]: Waiting]) -> Value) -> Value {
        let (value, count) = self.waiting.withLock { (body(&$0), $0.count) }
        self.gauge.record(count)
        return value
    }
}
