import NIOCore
import Synchronization

/// The decision how long a server that was told to stop still takes connections.
///
/// Load balancers see with their next checks that it is not ready, and send new connections elsewhere. It is over when
/// its time is, or earlier when nobody has opened or closed a connection for a while. No clock.
struct Drain: Sendable {
    struct Limits: Sendable {
        /// The longest time; 0 for no drain.
        var most = Duration.zero
        /// The time without an opened or closed connection after which no client uses the server any more.
        var quiet = Duration.seconds(5)
        /// The time after a drain in which connections may still send a request: a balancer without health checks, such
        /// as nginx, goes on connecting until the socket is closed, and its last requests are on their way.
        var last = Duration.milliseconds(500)
    }

    private let end: NIODeadline
    private let quiet: TimeAmount
    private var lastUse: NIODeadline

    init(_ limits: Limits, at now: NIODeadline) {
        self.end = now + .init(limits.most)
        self.quiet = .init(limits.quiet)
        self.lastUse = now
    }

    /// Notes that a connection was opened or closed.
    mutating func used(at now: NIODeadline) { self.lastUse = now }

    /// Returns the time at which to decide again; nil if it is over.
    func next(at now: NIODeadline) -> NIODeadline? {
        let next = min(self.end, self.lastUse + self.quiet)
        return next > now ? next : nil
    }
}

/// Tells all connections of a server if it drains.
final class Draining: Sendable {
    private let began = Atomic(false)

    var isDraining: Bool { self.began.load(ordering: .relaxed) }

    func begin() { self.began.store(true, ordering: .relaxed) }
}
