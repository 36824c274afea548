public import NIOCore

/// Usage ahead of time: it grows with each use and shrinks with the clock.
///
/// It is represented by one point in time, at which nothing is owed any more. With a price for each use and a limit for
/// the debt it is a token bucket. Source: ITU-T I.371 §A.1, generic cell rate algorithm
public struct RateLimit: Hashable, Sendable {
    @usableFromInline private(set) var clear: NIODeadline

    /// No debt.
    @inlinable public init() { self.clear = .uptimeNanoseconds(0) }

    /// Returns the amount owed; zero without a debt.
    @inlinable public func amount(at now: NIODeadline) -> TimeAmount { self.clear > now ? self.clear - now : .zero }

    /// Counts a use.
    ///
    /// - Parameter limit: the maximum to which the debt is cut, so that it ends in a known time.
    @inlinable public mutating func grow(by amount: TimeAmount, atMost limit: TimeAmount, at now: NIODeadline) {
        self.clear = now + min(self.amount(at: now) + amount, limit)
    }
}

/// The debts of many clients in a table of constant size.
///
/// A client has eight possible places, chosen by its hash, which is seeded differently in each process, so that no
/// client can aim at another's places. If all eight are taken, the debt that ends soonest is forgiven: with more
/// clients than places some exceed their limit, and no client is refused because of another.
public struct RateLimitTable<Client: Hashable & Sendable>: Sendable {
    @usableFromInline struct Entry: Sendable {
        @usableFromInline var client: Client
        @usableFromInline var debt: RateLimit

        @inlinable init(client: Client, debt: RateLimit) {
            self.client = client
            self.debt = debt
        }
    }

    @inlinable static var ways: Int { 8 }
    @usableFromInline var entries: [Entry?]

    /// - Parameter capacity: the number of clients that fit, 8 or more.
    @inlinable public init(capacity: Int) {
        self.entries = Array(repeating: nil, count: max(1, capacity / Self.ways) * Self.ways)
    }

    /// The number of clients that fit.
    @inlinable public var capacity: Int { self.entries.count }

    /// The debt of a client, stored or not.
    @inlinable public subscript(client: Client) -> RateLimit {
        get {
            for index in self.places(of: client) {
                if let entry = self.entries[index], entry.client == client { return entry.debt }
            }
            return RateLimit()
        }
        set {
            let places = self.places(of: client)
            let own = places.first { self.entries[$0]?.client == client }
            let index = own ?? places.min { self.clear($0) < self.clear($1) } ?? places.lowerBound
            self.entries[index] = Entry(client: client, debt: newValue)
        }
    }

    @inlinable func clear(_ index: Int) -> NIODeadline { self.entries[index]?.debt.clear ?? RateLimit().clear }

    @inlinable func places(of client: Client) -> Range<Int> {
        let set = UInt(bitPattern: client.hashValue) % UInt(self.entries.count / Self.ways)
        let start = Int(set) * Self.ways
        return start..<start + Self.ways
    }
}
