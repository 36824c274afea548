import Synchronization

/// What happened during a run: counts by kind, and what is not as it must be.
final class ChaosTally: Sendable {
    /// Differences that are kept in words; all are counted.
    private static let limit = 100

    private struct State {
        var counts: [String: Int] = [:]
        var differences: [String] = []
        var differenceCount = 0
        var fallen = 0
        var roseAt: ContinuousClock.Instant?
    }

    private let state = Mutex(State())

    /// Counts something, by a name of a closed set such as `wrong_401.fetch`.
    func count(_ name: String, by amount: Int = 1) { self.state.withLock { $0.counts[name, default: 0] += amount } }

    /// Notes a difference, explained enough to look for its cause.
    func differ(_ explanation: String) {
        let isTold = self.state.withLock { state in
            state.differenceCount += 1
            guard state.differences.count < Self.limit else { return false }
            state.differences.append(explanation)
            return true
        }
        // At once, so that it stands among the faults that went before it.
        if isTold { Console.progress("difference: \(explanation)") }
    }

    /// Redis may be an older copy of itself from now on, until `rise` is called as often.
    func fall() { self.state.withLock { $0.fallen += 1 } }
    func rise() {
        self.state.withLock { state in
            state.fallen -= 1
            state.roseAt = .now
        }
    }

    /// Whether what is served may be older than what was served before: Redis came back with an older copy of itself,
    /// and that is not mended yet, or an answer from before may still be under way.
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
