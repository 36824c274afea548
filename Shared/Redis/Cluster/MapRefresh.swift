import NIOCore

/// The state machine that decides when a cluster's nodes are asked for the slot map, and which nodes.
///
/// Pure. Many simultaneous redirections cause one round, and at most ten rounds a second are made. Three nodes are
/// asked at a time: the first usable answer counts, and one node that hangs delays nothing.
struct MapRefresh {
    /// Nodes asked at the same time.
    static let width = 3
    /// Shortest time between two rounds.
    static let pause = TimeAmount.milliseconds(100)
    /// Longest time between two rounds that found no map.
    static let longestPause = TimeAmount.seconds(1)

    private enum State {
        /// Goes to: scheduled, asking.
        case idle(notBefore: NIODeadline)
        /// Waits until it may ask. Goes to: asking.
        case scheduled
        /// `missing` answers are outstanding, `rest` was not asked yet. Goes to: idle, scheduled.
        case asking(missing: Int, rest: [NodeAddress])
    }

    enum Want: Hashable {
        case nothing
        /// Call `begin` now.
        case begin
        /// Call `begin` then.
        case beginAt(NIODeadline)
    }

    private var state = State.idle(notBefore: .uptimeNanoseconds(0))
    private var failures = 0

    /// Notes that the map may be wrong.
    mutating func wanted(now: NIODeadline) -> Want {
        guard case .idle(let notBefore) = self.state else { return .nothing }
        self.state = .scheduled
        return notBefore <= now ? .begin : .beginAt(notBefore)
    }

    /// Begins a round.
    ///
    /// - Parameter candidates: the most promising first.
    /// - Returns: the nodes to ask.
    mutating func begin(_ candidates: [NodeAddress]) -> [NodeAddress] {
        let first = Array(candidates.prefix(Self.width))
        self.state = .asking(missing: first.count, rest: Array(candidates.dropFirst(Self.width)))
        return first
    }

    enum Failure: Hashable {
        /// Others are still being asked.
        case wait
        /// Ask this one too.
        case ask(NodeAddress)
        /// All have failed: begin again then.
        case beginAt(NIODeadline)
        /// An answer of a round that is over.
        case late
    }

    /// Notes that a node did not answer, or gave an unusable answer.
    mutating func failed(now: NIODeadline) -> Failure {
        guard case .asking(let missing, var rest) = self.state else { return .late }
        if !rest.isEmpty {
            let next = rest.removeFirst()
            self.state = .asking(missing: missing, rest: rest)
            return .ask(next)
        }
        guard missing <= 1 else {
            self.state = .asking(missing: missing - 1, rest: [])
            return .wait
        }
        self.failures = min(self.failures + 1, 10)
        self.state = .scheduled
        return .beginAt(now + min(Self.pause * (1 << self.failures), Self.longestPause))
    }

    /// Notes that a node answered.
    ///
    /// - Returns: false for an answer of a round that is over.
    mutating func succeeded(now: NIODeadline) -> Bool {
        guard case .asking = self.state else { return false }
        self.failures = 0
        self.state = .idle(notBefore: now + Self.pause)
        return true
    }
}
