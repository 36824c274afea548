import DequeModule
import Synchronization

/// What has to be done for notifications that have their verdicts, and who waits for something to do.
///
/// Bounded by the desk: one errand for each target at most.
final class PushErrandQueue: Sendable {
    private struct State {
        var waiting: Deque<PushEffect> = []
        var idle: [CheckedContinuation<Void, Never>] = []
        var isEnded = false
        var inWork = 0
    }

    private let state = Mutex(State())

    /// What waits or is being done.
    var count: Int { self.state.withLock { $0.waiting.count + $0.inWork } }

    func add(_ effects: [PushEffect]) {
        guard !effects.isEmpty else { return }
        let lanes = self.state.withLock { state in
            state.waiting.append(contentsOf: effects)
            let count = min(effects.count, state.idle.count)
            defer { state.idle.removeLast(count) }
            return Array(state.idle.suffix(count))
        }
        for lane in lanes { lane.resume() }
    }

    /// Waits for something to do; nil when nothing more is given out. Each must be followed by `ended`.
    func next() async -> PushEffect? {
        while true {
            let (effect, isEnded) = self.state.withLock { state -> (PushEffect?, Bool) in
                if state.isEnded { return (nil, true) }
                let effect = state.waiting.popFirst()
                if effect != nil { state.inWork += 1 }
                return (effect, false)
            }
            if isEnded { return nil }
            if let effect { return effect }
            await withCheckedContinuation { continuation in
                let isNeeded = self.state.withLock { state in
                    if state.isEnded || !state.waiting.isEmpty { return true }
                    state.idle.append(continuation)
                    return false
                }
                if isNeeded { continuation.resume() }
            }
        }
    }

    /// One that was given out is done, or left undone.
    func ended() { self.state.withLock { $0.inWork -= 1 } }

    /// Nothing more is given out.
    func end() {
        let lanes = self.state.withLock { state in
            state.isEnded = true
            defer { state.idle = [] }
            return state.idle
        }
        for lane in lanes { lane.resume() }
    }
}
