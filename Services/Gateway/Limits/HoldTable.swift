import Model
import NIOCore

/// The clients that wait for packages being made, limited so that no client keeps others from waiting.
///
/// A token does not prove that its order exists: a client that has one of a nonexistent order may request it
/// repeatedly. Bounded: at most `Limits.requests` entries.
struct HoldTable<Client: Hashable & Sendable>: Sendable {
    /// The number of requests that may wait at once.
    struct Limits: Sendable {
        var requests = 1000
        var perOrder = 4
        var perClient = 100
    }

    private let limits: Limits
    private var count = 0
    private var orders: [OrderKey: Int] = [:]
    private var types: [OrderTypeIdentifier: Int] = [:]
    private var clients: [Client: Int] = [:]

    init(_ limits: Limits = Limits()) { self.limits = limits }

    /// - Returns: true if a request may wait; the caller must then call `leave`.
    mutating func enter(_ order: OrderKey, _ client: Client) -> Bool {
        let (ofOrder, ofClient) = (self.orders[order, default: 0], self.clients[client, default: 0])
        guard self.count < self.limits.requests, ofOrder < self.limits.perOrder, ofClient < self.limits.perClient
        else { return false }
        self.count += 1
        self.orders[order] = ofOrder + 1
        self.types[order.orderType, default: 0] += 1
        self.clients[client] = ofClient + 1
        return true
    }

    mutating func leave(_ order: OrderKey, _ client: Client) {
        self.count -= 1
        Self.takeOff(order, &self.orders)
        Self.takeOff(order.orderType, &self.types)
        Self.takeOff(client, &self.clients)
    }

    /// The least time between two looks of a request, so that all of them together look 5,000 times a second at most.
    var pause: TimeAmount { .microseconds(200 * Int64(self.count)) }

    /// Returns the number of requests that wait for orders of a type.
    func waiting(for type: OrderTypeIdentifier) -> Int { self.types[type, default: 0] }

    private static func takeOff<Key: Hashable>(_ key: Key, _ counts: inout [Key: Int]) {
        guard let count = counts[key] else { return }
        counts[key] = count > 1 ? count - 1 : nil
    }
}
