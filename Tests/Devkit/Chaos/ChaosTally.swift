import Synchronization

/// The events of a run: counts by kind, and the differences from the expected results.
final class ChaosTally: Sendable {
    /// The most differences that are kept as text; all are counted.
    private static let limit = 100

    private struct State {
        var counts: [String: Int] = [:]
        var differences: [String] = []
        var differenceCount = 0
        var fallen = 0
        var roseAt: ContinuousClock.Instant?
    }

    private let state = Mutex(State())

    /// Counts an event under a name from a closed set, such as `wrong_401.fetch`.
    func count(_ name: String, by amount: Int = 1) { self.state.withLock { $0.counts[name, default: 0] += amount } }

    /// Records a difference, with enough detail to find its cause.
    func differ(_ explanation: String) {
        let isShown = self.state.withLock { state in
            state.differenceCount += 1
            guard state.differences.count < Self.limit else { return false }
            state.differences.append(explanation)
            return true
        }
        // Printed immediately, so that it appears next to the faults that preceded it.
        if isShown { Console.progress("difference: \(explanation)") }
    }

    /// Records that Redis may have an older copy of its data from now on, until `rise` has been called as often.
    func fall() { self.state.withLock { $0.fallen += 1 } }
    func rise() {
        self.state.withLock { state in
            state.fallen -= 1
            state.roseAt = .now
        }
    }

    /// True if a served version may be older than an earlier one: Redis came back with an older copy of its data that
    /// is not repaired yet, or an answer from before the repair may still be in flight.
    var hasFallen: Bool {
        self.state.withLock { state in
            state.fallen > 0 || state.roseAt.map { ContinuousClock.now - $0 < .seconds(2) } ?? false
        }
    }

    var counts: [String: Int] { self.state.withLock(\.counts) }
    var differences: (count: Int, explained: [String]) {
        self.state.withLock { ($0.differenceCount, $0.differences) }
    }
}
