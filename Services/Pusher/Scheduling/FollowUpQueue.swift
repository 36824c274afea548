import DequeModule
import Synchronization

/// The effects of notifications that have their verdicts, and the tasks that wait for them.
///
/// Bounded by the scheduler: one effect for each target at most.
package final class FollowUpQueue: Sendable {
    private struct State {
        var retirements: Deque<PushEffect> = []
        var deadLetters: Deque<PushEffect> = []
        var idle: [CheckedContinuation<Void, Never>] = []
        var isEnded = false
        var inWork = 0
        var deadLettersInWork = 0
        let mostDeadLetters: Int

        /// Removes and returns the next effect that may be performed.
        mutating func next() -> PushEffect? {
            if self.deadLettersInWork < self.mostDeadLetters, let deadLetter = self.deadLetters.popFirst() {
                self.deadLettersInWork += 1
                self.inWork += 1
                return deadLetter
            }
            guard let retirement = self.retirements.popFirst() else { return nil }
            self.inWork += 1
            return retirement
        }

        var hasNext: Bool {
            !self.retirements.isEmpty || self.deadLettersInWork < self.mostDeadLetters && !self.deadLetters.isEmpty
        }
    }

    /// The number of effects that are performed concurrently: each waits for Kafka's acknowledgement most of the time.
    static let concurrency = 32

    private let state: Mutex<State>

    /// - Parameter mostDeadLetters: the most dead letters in progress: a topic that accepts none must leave room for
    ///   the removal of registrations.
    init(mostDeadLetters: Int = FollowUpQueue.concurrency / 2) {
        self.state = Mutex(State(mostDeadLetters: mostDeadLetters))
    }

    /// The number of effects that wait or are in progress.
    var count: Int { self.state.withLock { $0.retirements.count + $0.deadLetters.count + $0.inWork } }

    func add(_ effects: [PushEffect]) {
        guard !effects.isEmpty else { return }
        let queues = self.state.withLock { state in
            for effect in effects {
                if effect.isDeadLetter { state.deadLetters.append(effect) } else { state.retirements.append(effect) }
            }
            let count = min(effects.count, state.idle.count)
            defer { state.idle.removeLast(count) }
            return Array(state.idle.suffix(count))
        }
        for queue in queues { queue.resume() }
    }

    /// Waits for an effect and returns it; nil after `end`. Each effect must be followed by `ended`.
    package func next() async -> PushEffect? {
        while true {
            let (effect, isEnded) = self.state.withLock { state -> (PushEffect?, Bool) in
                if state.isEnded { return (nil, true) }
                return (state.next(), false)
            }
            if isEnded { return nil }
            if let effect { return effect }
            await withCheckedContinuation { continuation in
                let isNeeded = self.state.withLock { state in
                    if state.isEnded || state.hasNext { return true }
                    state.idle.append(continuation)
                    return false
                }
                if isNeeded { continuation.resume() }
            }
        }
    }

    /// Notes that an effect is done or abandoned.
    package func ended(_ effect: PushEffect) {
        self.state.withLock { state in
            state.inWork -= 1
            if effect.isDeadLetter { state.deadLettersInWork -= 1 }
        }
    }

    /// Stops handing out effects, and releases the tasks that wait.
    package func end() {
        let queues = self.state.withLock { state in
            state.isEnded = true
            defer { state.idle = [] }
            return state.idle
        }
        for queue in queues { queue.resume() }
    }
}

extension PushEffect {
    fileprivate var isDeadLetter: Bool { if case .report = self.work { true } else { false } }
}
