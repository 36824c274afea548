import NIOCore

/// Usage ahead of time: it grows with each use and shrinks with the clock.
///
/// It is represented by one point in time, at which nothing is owed any more. With a price for each use and a limit for
/// the debt it is a token bucket. Source: ITU-T I.371 §A.1, generic cell rate algorithm
struct RateLimit: Hashable, Sendable {
    private(set) var clear: NIODeadline

    /// No debt.
    init() { self.clear = .uptimeNanoseconds(0) }

    /// Returns the amount owed; zero without a debt.
    func amount(at now: NIODeadline) -> TimeAmount { self.clear > now ? self.clear - now : .zero }

    /// - Parameter limit: the maximum to which the debt is cut, so that it ends in a known time.
    mutating func grow(by amount: TimeAmount, atMost limit: TimeAmount, at now: NIODeadline) {
        self.clear = now + min(self.amount(at: now) + amount, limit)
    }
}
