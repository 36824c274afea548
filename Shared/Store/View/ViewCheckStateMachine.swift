import NIOCore

/// Decides when a gateway that does not know whether it may answer checks the view, and interprets the result.
///
/// Pure. All requests that arrive during a check share it; a check that did not help is followed by another after a
/// pause.
struct ViewCheckStateMachine: Hashable {
    /// Time from the end of a check to the beginning of the next.
    static let pause = TimeAmount.milliseconds(10)
    /// Most requests that wait for a check.
    static let limit = 10_000

    enum State: Hashable {
        /// No request waits. Goes to: looking.
        case idle(notBefore: NIODeadline)
        /// A check is due or in progress, and this many wait for it. Goes to: idle.
        case looking(waiting: Int)
    }

    enum Want: Hashable {
        /// Check at that time; the request waits for it.
        case look(NIODeadline)
        /// The check in progress serves the request.
        case wait
        /// Too many wait already.
        case refuse
    }

    private(set) var state = State.idle(notBefore: .uptimeNanoseconds(0))

    /// Notes that a request cannot be answered before a check.
    mutating func asked(now: NIODeadline) -> Want {
        switch self.state {
        case .idle(let notBefore):
            self.state = .looking(waiting: 1)
            return .look(max(now, notBefore))
        case .looking(let waiting):
            guard waiting < Self.limit else { return .refuse }
            self.state = .looking(waiting: waiting + 1)
            return .wait
        }
    }

    /// Notes that the check is over, whatever its result.
    mutating func looked(now: NIODeadline) { self.state = .idle(notBefore: now + Self.pause) }

    /// The result of a check.
    enum Verdict: Hashable {
        /// The view was judged for the present servers, or is restored into empty ones: answer from it. While epochs
        /// are missing, nothing can be said about missing orders.
        case confirmed
        /// The view is not complete, or belongs to an earlier state of a server, and may be older than the devices'
        /// versions.
        case doubtful
        /// A server was replaced during the check, which saw the old or the new one: check again.
        case overtaken

        /// - Parameters:
        ///   - shards: the shards as read.
        ///   - before: the client's generation before the check, and `after` it.
        init(_ shards: [MaterializedView.Shard], before: UInt64, after: UInt64) {
            if before != after {
                self = .overtaken
            } else {
                self =
                    !shards.isEmpty && shards.allSatisfy { $0.epoch != nil && $0.isHere || $0.startedEmpty }
                    ? .confirmed : .doubtful
            }
        }
    }
}
