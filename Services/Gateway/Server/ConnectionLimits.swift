/// How many connections there may be, and how many there are. Bounded by itself: it knows no more addresses than it
/// admitted connections.
struct ConnectionLimits: Sendable {
    /// Why a connection was not admitted.
    enum Refusal: String, CaseIterable, Sendable {
        /// There are too many in all.
        case total
        /// There are too many from that address.
        case address
    }

    static let defaultTotal = 20_000
    static let defaultPerAddress = 1_000

    /// Most connections in all.
    let total: Int
    /// Most connections from one address.
    let perAddress: Int
    /// The connections that are open.
    private(set) var count = 0
    private var counts: [ClientAddress: Int] = [:]

    init(total: Int = ConnectionLimits.defaultTotal, perAddress: Int = ConnectionLimits.defaultPerAddress) {
        self.total = total
        self.perAddress = perAddress
    }

    /// Counts a connection that has come, unless there are too many.
    ///
    /// - Parameter client: nil for a trusted proxy, which many clients share.
    /// - Returns: nil if it may stay; the same `client` has to `leave` later.
    mutating func admit(_ client: ClientAddress?) -> Refusal? {
        guard self.count < self.total else { return .total }
        if let client {
            let present = self.counts[client, default: 0]
            guard present < self.perAddress else { return .address }
            self.counts[client] = present + 1
        }
        self.count += 1
        return nil
    }

    /// An admitted connection has gone.
    mutating func leave(_ client: ClientAddress?) {
        self.count -= 1
        guard let client, let present = self.counts[client] else { return }
        self.counts[client] = present > 1 ? present - 1 : nil
    }

    /// How many addresses have connections.
    var addresses: Int { self.counts.count }
}
