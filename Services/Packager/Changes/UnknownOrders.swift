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

    fileprivate struct Waiting {
        let deadline: ContinuousClock.Instant
        let bytes: Int
    }

    fileprivate struct State {
        var waiting: [[UInt8]: Waiting] = [:]
        var bytes = 0
    }

    private let patience: Duration
    private let state = Mutex(State())
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
        return self.change { state in
            let known = state.remove(key)
            if known == nil, state.waiting.count >= Self.keyLimit { state.forget(before: now) }
            let deadline = known?.deadline ?? now + self.patience
            guard deadline > now, state.waiting.count < Self.keyLimit, state.bytes + bytes <= Self.byteLimit else {
                return nil
            }
            state.waiting[key] = Waiting(deadline: deadline, bytes: bytes)
            state.bytes += bytes
            return deadline - now
        }
    }

    /// Forgets orders that exist now, or of which nothing waits any more.
    func forget(_ keys: some Sequence<[UInt8]>) {
        self.change { state in
            if state.waiting.isEmpty { return }
            for key in keys { _ = state.remove(key) }
        }
    }

    private func change<Value>(_ body: (inout State) -> Value) -> Value {
        let (value, count) = self.state.withLock { (body(&$0), $0.waiting.count) }
        self.gauge.record(count)
        return value
    }
}

extension UnknownOrders.State {
    fileprivate mutating func remove(_ key: [UInt8]) -> UnknownOrders.Waiting? {
        guard let known = self.waiting.removeValue(forKey: key) else { return nil }
        self.bytes -= known.bytes
        return known
    }

    /// Forgets orders that should have returned by now: their partition went to another worker.
    fileprivate mutating func forget(before now: ContinuousClock.Instant) {
        for (key, entry) in self.waiting where entry.deadline + .seconds(10) < now { _ = self.remove(key) }
    }
}
