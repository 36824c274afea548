/// The places of a pool that tenants share: a tenant gets a further one only while more are free than it has.
///
/// One tenant alone gets half of the pool, so that the next one always finds free places. Bounded by `limit`.
struct Shares<Tenant: Hashable & Sendable>: Sendable {
    let limit: Int
    private var held: [Tenant: Int] = [:]
    private var total = 0

    init(limit: Int) { self.limit = limit }

    /// Takes a place; false if the tenant has its share.
    mutating func take(_ tenant: Tenant) -> Bool {
        let mine = self.held[tenant, default: 0]
        guard mine < self.limit - self.total else { return false }
        self.held[tenant] = mine + 1
        self.total += 1
        return true
    }

    /// Returns a place that was taken.
    mutating func give(_ tenant: Tenant) {
        guard let mine = self.held[tenant] else { return }
        self.held[tenant] = mine > 1 ? mine - 1 : nil
        self.total -= 1
    }
}
