import HTTPServer
import NIOCore

/// Limits the messages from devices in the log: anyone can send them, and a log costs money and attention.
///
/// Bounded per address and for all together, since addresses are cheap.
struct DeviceLogLimit<Client: Hashable & Sendable>: Sendable {
    /// The permitted amounts.
    struct Limits: Sendable {
        /// Messages that one address may send in a burst.
        var burst = 20
        /// The time after which an address may send one more.
        var interval = TimeAmount.seconds(3)
        /// Messages that all addresses together may send in a burst.
        var totalBurst = 200
        /// The time after which all together may send one more.
        var totalInterval = TimeAmount.milliseconds(100)
        /// Most addresses that are remembered.
        var clients = 4096
    }

    private let limits: Limits
    private var table: RateLimitTable<Client>
    private var total = RateLimit()

    init(_ limits: Limits = Limits()) {
        self.limits = limits
        self.table = RateLimitTable(capacity: limits.clients)
    }

    /// Counts some messages.
    ///
    /// - Returns: the number of them that may be logged.
    mutating func admit(_ count: Int, from client: Client, at now: NIODeadline) -> Int {
        var debt = self.table[client]
        let own = Self.room(debt, burst: self.limits.burst, interval: self.limits.interval, at: now)
        let all = Self.room(self.total, burst: self.limits.totalBurst, interval: self.limits.totalInterval, at: now)
        let admitted = max(0, min(count, own, all))
        guard admitted > 0 else { return 0 }
        debt.grow(by: self.limits.interval * admitted, atMost: self.limits.interval * self.limits.burst, at: now)
        self.table[client] = debt
        self.total.grow(
            by: self.limits.totalInterval * admitted, atMost: self.limits.totalInterval * self.limits.totalBurst,
            at: now)
        return admitted
    }

    private static func room(_ debt: RateLimit, burst: Int, interval: TimeAmount, at now: NIODeadline) -> Int {
        burst - Int((debt.amount(at: now).nanoseconds + interval.nanoseconds - 1) / max(1, interval.nanoseconds))
    }
}
