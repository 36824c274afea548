import NIOCore
import Store

/// When the view is looked at by a gateway that does not know whether it may answer, and what is learnt from that.
///
/// Pure. All who ask while a look is under way share it; one that did not help is followed by the next after a pause.
struct ViewInquiry: Hashable {
    /// From the end of a look to the begin of the next.
    static let pause = TimeAmount.milliseconds(10)
    /// Most requests that wait for a look.
    static let limit = 10_000

    enum State: Hashable {
        /// Nobody waits. Goes to: looking.
        case idle(notBefore: NIODeadline)
        /// A look is due or under way, and so many wait for it. Goes to: idle.
        case looking(waiting: Int)
    }

    enum Want: Hashable {
        /// Look then; who asked waits for it.
        case look(NIODeadline)
        /// The look that is under way serves.
        case wait
        /// Too many wait already.
        case refuse
    }

    private(set) var state = State.idle(notBefore: .uptimeNanoseconds(0))

    /// A request cannot be answered before somebody has looked.
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

    /// The look is over, whatever it brought.
    mutating func looked(now: NIODeadline) { self.state = .idle(notBefore: now + Self.pause) }

    /// What a look says.
    enum Verdict: Hashable {
        /// Whatever stands there was judged as the servers are now: answer from it.
        case confirmed
        /// The view is not complete, or of a server's earlier life, and may be older than what devices have.
        case doubtful
        /// A server was replaced during the look, which saw one or the other: look again.
        case overtaken

        /// - Parameters:
        ///   - places: what was seen.
        ///   - before: the client's generation before the look, and `after` it.
        init(_ places: [View.Place], before: UInt64, after: UInt64) {
            if before != after {
                self = .overtaken
            } else {
                self = !places.isEmpty && places.allSatisfy { $0.epoch != nil && $0.isHere } ? .confirmed : .doubtful
            }
        }
    }
}
