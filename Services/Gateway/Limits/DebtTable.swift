import NIOCore

/// The debts of many clients in a table that never grows.
///
/// A client has eight places where it may stand, chosen by its hash; that is seeded anew in each process, so nobody can
/// aim at another's places. When all eight are taken, the debt that ends soonest is forgiven: with more clients than
/// places some get away with more than they should, and nobody is refused for another's sake.
struct DebtTable<Client: Hashable & Sendable>: Sendable {
    private struct Entry: Sendable {
        var client: Client
        var debt: Debt
    }

    private static var ways: Int { 8 }
    private var entries: [Entry?]

    /// - Parameter capacity: how many clients can stand here, 8 or more.
    init(capacity: Int) {
        self.entries = Array(repeating: nil, count: max(1, capacity / Self.ways) * Self.ways)
    }

    /// How many clients can stand here.
    var capacity: Int { self.entries.count }

    /// The debt of a client that stands here or not.
    subscript(client: Client) -> Debt {
        get {
            for index in self.places(of: client) {
                if let entry = self.entries[index], entry.client == client { return entry.debt }
            }
            return Debt()
        }
        set {
            let places = self.places(of: client)
            let own = places.first { self.entries[$0]?.client == client }
            let index = own ?? places.min { self.clear($0) < self.clear($1) } ?? places.lowerBound
            self.entries[index] = Entry(client: client, debt: newValue)
        }
    }

    private func clear(_ index: Int) -> NIODeadline { self.entries[index]?.debt.clear ?? Debt().clear }

    private func places(of client: Client) -> Range<Int> {
        let set = UInt(bitPattern: client.hashValue) % UInt(self.entries.count / Self.ways)
        let start = Int(set) * Self.ways
        return start..<start + Self.ways
    }
}
