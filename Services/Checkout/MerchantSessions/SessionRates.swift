import HTTPServer
import NIOCore
import Synchronization

/// Limits the requests of pages of one kind, such as merchant sessions, by client, by network, and by page.
///
/// A network has ten times the share of a client, for each page: one customer of a hoster has many addresses. Many
/// customers may share one address, so each page has spare ones, a tenth of its rate, for clients and networks that
/// used up their share; one address that takes all of them leaves the rest of the rate to the others. While a page has
/// used more than half of its rate, only clients are admitted that had none lately.
///
/// Bounded: a fixed number of clients are remembered, and only configured pages.
final class SessionRates: Sendable {
    struct Limits: Sendable {
        /// Requests that one client may send in a burst.
        var perClient = 10
        /// The time after which a client may send one more.
        var clientInterval = TimeAmount.seconds(6)
        /// Requests per second for one page's origin.
        var perOrigin = 50

        /// - Parameter perMinute: requests a minute for one client, all of them in a burst if it likes.
        static func of(client perMinute: Int) -> Limits {
            Limits(perClient: perMinute, clientInterval: .nanoseconds(60_000_000_000 / Int64(perMinute)))
        }

        func times(_ factor: Int) -> Limits {
            Limits(
                perClient: self.perClient * factor,
                clientInterval: .nanoseconds(self.clientInterval.nanoseconds / Int64(factor)),
                perOrigin: self.perOrigin * factor)
        }
    }

    /// Payments for each merchant session, and requests for baskets and prices: a sheet may be confirmed again after a
    /// failure, and a page reads its basket whenever that changes.
    static let (paymentFactor, lookupFactor) = (3, 30)
    /// All requests for merchant sessions, refused ones among them, for each session.
    static let attemptFactor = 10

    /// The share of a network in clients.
    static let networkFactor = 10
    /// The part of a page's rate that is spare.
    static let spareDivisor = 10

    private struct NetworkPage: Hashable, Sendable {
        let network: ClientNetwork
        let origin: PageOrigin
    }

    private struct Page {
        var used = RateLimit()
        var spare = RateLimit()
    }

    private struct State {
        var networks = RateLimitTable<NetworkPage>(capacity: 8192)
        var clients = RateLimitTable<ClientAddress>(capacity: 8192)
        var pages: [PageOrigin: Page] = [:]
    }

    private let limits: Limits
    private let state = Mutex(State())

    init(_ limits: Limits = Limits()) { self.limits = limits }

    /// Admits and counts a request of a configured page.
    ///
    /// - Parameter kind: names the requests, for a person.
    /// - Throws: `rate_limited`.
    func require(_ client: ClientAddress, _ origin: PageOrigin, _ kind: String) throws(CheckoutFailure) {
        guard let seconds = self.admit(client, origin) else { return }
        var failure = CheckoutFailure(.rateLimited, "too many \(kind) are requested")
        failure.headers = ["retry-after": String(seconds)]
        throw failure
    }

    /// Admits and counts a request of a configured page.
    ///
    /// - Returns: nil if it is admitted, else the seconds after which to retry.
    func admit(_ client: ClientAddress, _ origin: PageOrigin, at now: NIODeadline = .now()) -> Int64? {
        let limits = self.limits
        let originInterval = TimeAmount.nanoseconds(1_000_000_000 / Int64(limits.perOrigin))
        let networkInterval = TimeAmount.nanoseconds(limits.clientInterval.nanoseconds / Int64(Self.networkFactor))
        let place = NetworkPage(network: client.network, origin: origin)
        return self.state.withLock { state in
            var (ofClient, ofNetwork) = (state.clients[client], state.networks[place])
            var page = state.pages[origin, default: Page()]
            let isScarce = page.used.amount(at: now) > originInterval * (limits.perOrigin / 2)
            let ofPage = [
                Self.wait(page.used, limits.perOrigin, originInterval, now),
                isScarce && ofClient.amount(at: now) > .zero ? 1 : nil,
            ].compactMap(\.self).max()
            let ofOwn = [
                Self.wait(ofClient, limits.perClient, limits.clientInterval, now),
                Self.wait(ofNetwork, limits.perClient * Self.networkFactor, networkInterval, now),
            ].compactMap(\.self).max()
            if let ofPage { return max(ofPage, ofOwn ?? 0) }
            if let ofOwn {
                let spareInterval = originInterval * Self.spareDivisor
                let isSpent = Self.wait(page.spare, limits.perOrigin / Self.spareDivisor, spareInterval, now) != nil
                guard !isSpent else { return ofOwn }
                page.spare.grow(by: spareInterval, atMost: .hours(1), at: now)
            } else {
                ofClient.grow(by: limits.clientInterval, atMost: .hours(1), at: now)
                ofNetwork.grow(by: networkInterval, atMost: .hours(1), at: now)
            }
            page.used.grow(by: originInterval, atMost: .hours(1), at: now)
            (state.clients[client], state.networks[place]) = (ofClient, ofNetwork)
            state.pages[origin] = page
            return nil
        }
    }

    private static func wait(_ debt: RateLimit, _ burst: Int, _ interval: TimeAmount, _ now: NIODeadline) -> Int64? {
        let over = debt.amount(at: now) + interval - interval * burst
        guard over > .zero else { return nil }
        return (over.nanoseconds + 999_999_999) / 1_000_000_000
    }
}
