import Glibc
import NIOCore

/// The limits on connections, their present numbers, and those that give way to others.
///
/// A connection counts in three scopes: in all, for its client, and for its client's network. Bounded: it stores no
/// more addresses than it has admitted connections.
struct ConnectionLimits: Sendable {
    /// The reason why a connection was not admitted.
    enum Refusal: String, CaseIterable, Sendable {
        /// There are too many in all.
        case total
        /// There are too many from that address.
        case address
        /// There are too many from that address' network.
        case network
    }

    static let defaultTotal = 20_000
    static let defaultPerAddress = 1_000
    /// A network may have this many times as many connections as one of its addresses.
    static let networkShare = 4

    /// Most connections in all.
    let total: Int
    /// Most connections from one address.
    let perAddress: Int
    /// Most connections from one network.
    let perNetwork: Int
    /// The connections that are open.
    private(set) var count = 0
    private var addresses: [ClientAddress: Int] = [:]
    private var networks: [ClientNetwork: Int] = [:]

    init(total: Int = ConnectionLimits.defaultTotal, perAddress: Int = ConnectionLimits.defaultPerAddress) {
        self.total = total
        self.perAddress = perAddress
        self.perNetwork = perAddress * Self.networkShare
    }

    /// Counts a new connection, unless there are too many.
    ///
    /// - Parameter client: nil for a trusted proxy, which many clients share.
    /// - Returns: nil if it may stay; the same `client` has to `leave` later.
    mutating func admit(_ client: ClientAddress?) -> Refusal? {
        guard self.count < self.total else { return .total }
        if let client {
            let (address, network) = self.present(client)
            guard address < self.perAddress else { return .address }
            guard network < self.perNetwork else { return .network }
            self.addresses[client] = address + 1
            self.networks[client.network] = network + 1
        }
        self.count += 1
        return nil
    }

    /// Counts the end of an admitted connection.
    mutating func leave(_ client: ClientAddress?) {
        self.count -= 1
        guard let client else { return }
        let (address, network) = self.present(client)
        self.addresses[client] = address > 1 ? address - 1 : nil
        self.networks[client.network] = network > 1 ? network - 1 : nil
    }

    /// Returns the used part of a client's fullest scope: 1 when no more of its connections are admitted.
    func fullness(for client: ClientAddress?) -> Double {
        let all = Double(self.count) / Double(self.total)
        guard let client else { return all }
        let (address, network) = self.present(client)
        return max(all, Double(address) / Double(self.perAddress), Double(network) / Double(self.perNetwork))
    }

    /// The number of addresses with connections.
    var addressCount: Int { self.addresses.count }

    private func present(_ client: ClientAddress) -> (address: Int, network: Int) {
        (self.addresses[client, default: 0], self.networks[client.network, default: 0])
    }
}

/// The number of files and sockets that the process may have open.
enum OpenFiles {
    /// The files needed for other than clients: Redis, Kafka, the operations endpoint, event loops, logs.
    static let reserve = 256

    /// Raises the limit as far as the system allows without privileges.
    ///
    /// - Returns: the resulting limit; nil if it cannot be determined.
    static func raiseLimit() -> Int? {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
        if limit.rlim_cur < limit.rlim_max {
            var raised = limit
            raised.rlim_cur = limit.rlim_max
            if unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &raised) == 0 { limit = raised }
        }
        return Int(clamping: limit.rlim_cur)
    }

    /// Returns the number of requested connections that fit.
    static func connections(wished: Int, files: Int?) -> Int {
        guard let files else { return wished }
        return max(1, min(wished, files - Self.reserve))
    }
}
