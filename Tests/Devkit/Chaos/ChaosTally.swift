import Synchronization

/// What happened during a run: counts by kind, and what is not as it must be.
final class ChaosTally: Sendable {
    /// Differences that are kept in words; all are counted.
    private static let limit = 100

    private struct State {
        var counts: [String: Int] = [:]
        var differences: [String] = []
        var differenceCount = 0
    }

    private let state = Mutex(State())

    /// Counts something, by a name of a closed set such as `wrong_401.fetch`.
    func count(_ name: String, by amount: Int = 1) { self.state.withLock { $0.counts[name, default: 0] += amount } }

    /// Notes a difference, explained enough to look for its cause.
    func differ(_ explanation: String) {
        self.state.withLock { state in
            state.differenceCount += 1
            if state.differences.count < Self.limit { state.differences.append(explanation) }
        }
    }

    var counts: [String: Int] { self.state.withLock(\.counts) }
    var differences: (count: Int, explained: [String]) {
        self.state.withLock { ($0.differenceCount, $0.differences) }
    }
}
