import Kafka
import Synchronization

/// What the lanes of a `KeyedWorker` and its fetching share: the queue, and the lanes that have nothing to do.
final class KeyedDesk: Sendable {
    private struct State {
        var queue: KeyQueue
        var idle: [CheckedContinuation<Void, Never>] = []
        var isStopping = false
        /// Nothing is given out while a backlog is being read.
        var isHeld = false
        var hasWork: Bool { !self.isHeld && self.queue.readyCount > 0 }
    }

    private let state: Mutex<State>

    init(limits: KeyQueue.Limits) { self.state = Mutex(State(queue: KeyQueue(limits: limits))) }

    /// What a look at the queue says.
    struct Look: Sendable {
        let room: (records: Int, bytes: Int)
        let records: Int
        let bytes: Int
        let delayed: Int
    }

    var look: Look { self.state.withLock { Self.look($0.queue) } }
    /// Since when the first delayed key waits.
    var delayedSince: ContinuousClock.Instant? { self.state.withLock { $0.queue.delayedSince } }

    private static func look(_ queue: KeyQueue) -> Look {
        Look(room: queue.room, records: queue.records, bytes: queue.bytes, delayed: queue.delayedCount)
    }

    /// Takes records in, and parked keys up whose time has come.
    ///
    /// - Parameter isHeld: nothing is given out until the next call.
    func add(_ records: [KafkaRecord], now: ContinuousClock.Instant, isHeld: Bool = false) {
        self.change { state in
            state.isHeld = isHeld
            state.queue.add(records)
            state.queue.wake(now: now)
        }
    }

    /// Waits for work; nil when no more is given out.
    func next() async -> [KeyedWork]? {
        while true {
            let works: [KeyedWork]? = self.change { state in
                if state.isStopping { return nil }
                return state.hasWork ? state.queue.next() : []
            }
            guard let works else { return nil }
            if !works.isEmpty { return works }
            await withCheckedContinuation { continuation in
                let isNeeded = self.state.withLock { state in
                    if state.isStopping || state.hasWork { return true }
                    state.idle.append(continuation)
                    return false
                }
                if isNeeded { continuation.resume() }
            }
        }
    }

    /// Takes back a batch.
    func settle(
        _ works: [KeyedWork], _ outcomes: [KeyedWork.Outcome], now: ContinuousClock.Instant,
        delay: (_ attempts: Int) -> Duration
    ) -> Look {
        self.change { state in
            for (work, outcome) in zip(works, outcomes) {
                switch outcome {
                case .done: state.queue.done(work.key)
                case .later: state.queue.later(work.key, now: now, delay: delay)
                }
            }
            return Self.look(state.queue)
        }
    }

    /// Partitions leave.
    func drop(_ partitions: Set<KafkaPartition>) -> [KafkaRecord] { self.change { $0.queue.drop(partitions) } }

    /// No more work is given out.
    func stop() {
        let idle = self.state.withLock { state in
            state.isStopping = true
            defer { state.idle = [] }
            return state.idle
        }
        for lane in idle { lane.resume() }
    }

    /// Changes the state and wakes a lane if there is work; it wakes the next one when it has taken its share.
    private func change<Value>(_ body: (inout State) -> Value) -> Value {
        let (value, lane) = self.state.withLock { state in
            let value = body(&state)
            return (value, state.hasWork ? state.idle.popLast() : nil)
        }
        lane?.resume()
        return value
    }
}
