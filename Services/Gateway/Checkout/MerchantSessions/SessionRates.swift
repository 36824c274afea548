import NIOCore
import Synchronization

/// Limits the merchant sessions that pages request, by client and by page.
///
/// Bounded: a fixed number of clients are remembered, and only configured pages.
final class SessionRates: Sendable {
    struct Limits: Sendable {
        /// Sessions that one client may request in a burst.
        var perClient = 10
        /// The time after which a client may request one more.
        var clientInterval = TimeAmount.seconds(6)
        /// Sessions per second for one page's origin.
        var perOrigin = 50
    }

    private struct State {
        var clients = RateLimitTable<ClientAddress>(capacity: 8192)
        var origins: [PageOrigin: RateLimit] = [:]
    }

    private let limits: Limits
    private let state = Mutex(State())

    init(_ limits: Limits = Limits()) { self.limits = limits }

    /// Admits and counts a request of a configured page.
    ///
    /// - Returns: nil if it is admitted, else the seconds after which to retry.
    func admit(_ client: ClientAddress, _ origin: PageOrigin, at now: NIODeadline = .now()) -> Int64? {
        let originInterval = TimeAmount.nanoseconds(1_000_000_000 / Int64(self.limits.perOrigin))
        return self.state.withLock { state in
            let clientWait = Self.wait(state.clients[client], self.limits.perClient, self.limits.clientInterval, now)
            let originWait = Self.wait(
                state.origins[origin, default: RateLimit()], self.limits.perOrigin, originInterval, now)
            guard clientWait == nil, originWait == nil else { return max(clientWait ?? 1, originWait ?? 1) }
            var debt = state.clients[client]
            debt.grow(by: self.limits.clientInterval, atMost: .hours(1), at: now)
            state.clients[client] = debt
            state.origins[origin, default: RateLimit()].grow(by: originInterval, atMost: .hours(1), at: now)
            return nil
        }
    }

    private static func wait(_ debt: RateLimit, _ burst: Int, _ interval: TimeAmount, _ now: NIODeadline) -> Int64? {
        let over = debt.amount(at: now) + interval - interval * burst
        guard over > .zero else { return nil }
        return (over.nanoseconds + 999_999_999) / 1_000_000_000
    }
}
