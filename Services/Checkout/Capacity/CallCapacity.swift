import Fetch
import Logging
import NIOCore
import Synchronization

/// The calls in progress to shops and payment providers: a share for each merchant, apart for those that move money,
/// and a breaker for each service.
///
/// A call that is refused here certainly did nothing. Bounded by `Kind.limit`, and by the configured services.
final class CallCapacity: Sendable {
    enum Kind: Hashable, Sendable, CaseIterable {
        /// Baskets and prices.
        case lookup
        /// Payments and confirmations.
        case money

        /// Most calls in progress.
        var limit: Int {
            switch self {
            case .lookup: 1000
            // A merchant's half is 100 payments a second at a service that takes 25 s.
            case .money: 5000
            }
        }
    }

    /// Most calls of all kinds in progress.
    static let limit = Kind.allCases.map(\.limit).reduce(0, +)

    private struct Service: Hashable {
        let kind: Kind
        let url: String
    }

    private struct State {
        var shares: [Kind: Shares<String>]
        /// Only services with something against them.
        var breakers: [Service: CallBreaker] = [:]
    }

    private let fetcher: Fetcher
    private let logger: Logger
    private let state: Mutex<State>

    /// - Parameter limit: most calls of a kind in progress.
    init(fetcher: Fetcher, limit: (Kind) -> Int = \.limit, logger: Logger) {
        self.fetcher = fetcher
        self.logger = logger
        self.state = Mutex(
            State(shares: Dictionary(uniqueKeysWithValues: Kind.allCases.map { ($0, Shares(limit: limit($0))) })))
    }

    /// Calls a service.
    ///
    /// - Parameters:
    ///   - merchant: the name of the merchant whose share is used.
    ///   - service: the service's address as `merchant.json` has it.
    /// - Throws: as `Upstream.failure` judges it; at once `unavailable`, or for money `upstream_unavailable`, which
    ///   tells a page that nobody was charged.
    func exchange(
        _ request: FetchRequest, _ kind: Kind, of merchant: String, at service: String
    ) async throws(CheckoutFailure) -> FetchedContent {
        let service = Service(kind: kind, url: service)
        try self.begin(service, merchant)
        let result: Result<FetchedContent, FetchError>
        do throws(FetchError) {
            result = .success(try await self.fetcher.exchange(request))
        } catch {
            result = .failure(error)
        }
        if self.end(service, merchant, result) {
            self.logger.warning(
                "a service does not answer in time: it is left alone for a while",
                metadata: ["merchant": "\(merchant)", "service": "\(service.url)"])
        }
        do throws(FetchError) {
            return try result.get()
        } catch {
            throw Upstream.failure(error)
        }
    }

    private func begin(_ service: Service, _ merchant: String) throws(CheckoutFailure) {
        let refusal: String? = self.state.withLock { state in
            guard state.shares[service.kind]?.take(merchant) == true else {
                return "too many calls of this merchant are in progress: nothing was done"
            }
            guard state.breakers[service]?.admits(at: .now()) != false else {
                state.shares[service.kind]?.give(merchant)
                return "the service does not answer in time: nothing was done"
            }
            return nil
        }
        guard let refusal else { return }
        throw service.kind == .money ? CheckoutFailure(.upstreamUnavailable, refusal) : .unavailable(refusal)
    }

    /// - Returns: true if the service is left alone and was not before.
    private func end(
        _ service: Service, _ merchant: String, _ result: Result<FetchedContent, FetchError>
    ) -> Bool {
        let isInTime: Bool =
            switch result {
            case .success: true
            case .failure(let error): error.code != .timeout
            }
        return self.state.withLock { state in
            state.shares[service.kind]?.give(merchant)
            var breaker = state.breakers[service] ?? CallBreaker()
            let wasOpen = breaker.isOpen
            let isOpen = breaker.ended(inTime: isInTime, at: .now())
            state.breakers[service] = breaker.isClear ? nil : breaker
            return isOpen && !wasOpen
        }
    }
}

/// The places of a pool that tenants share: a tenant gets a further one only while more are free than it has.
///
/// One tenant alone gets half of the pool, so that the next one always finds free places. Bounded by `limit`.
struct Shares<Tenant: Hashable & Sendable>: Sendable {
    let limit: Int
    private var held: [Tenant: Int] = [:]
    private var total = 0

    init(limit: Int) { self.limit = limit }

    /// True if the tenant may take so many places.
    func hasRoom(_ tenant: Tenant, _ count: Int = 1) -> Bool {
        self.held[tenant, default: 0] + 2 * count - 1 <= self.limit - self.total
    }

    /// Takes places; false if the tenant has its share.
    mutating func take(_ tenant: Tenant, _ count: Int = 1) -> Bool {
        guard self.hasRoom(tenant, count) else { return false }
        self.held[tenant, default: 0] += count
        self.total += count
        return true
    }

    /// Returns places that were taken together.
    mutating func give(_ tenant: Tenant, _ count: Int = 1) {
        guard let mine = self.held[tenant], mine >= count else { return }
        self.held[tenant] = mine > count ? mine - count : nil
        self.total -= count
    }
}
