import Redis

/// The decision, from the servers' INFO, if Redis can be relied on. No I/O, no clock.
struct RedisHealth {
    /// The possible faults, as metrics name them.
    enum Fault: String, CaseIterable {
        /// `maxmemory` is reached and nothing may be evicted.
        case full = "full"
        /// The policy evicts any key: orders, registrations, pictures.
        case evictsAll = "evicts-all"
        /// The policy evicts keys that expire: traces of orders that ended.
        case evictsExpiring = "evicts-expiring"
        /// A fall-back to older data would not be noticed.
        case historyHidden = "history-hidden"
        /// The server is too old.
        case unsupported = "unsupported"

        /// True if the fault is an error, and a remark in `/readyz`. A mere risk is a warning.
        var isSevere: Bool {
            switch self {
            case .full, .evictsAll, .unsupported: true
            case .evictsExpiring, .historyHidden: false
            }
        }
    }

    /// The time for which Redis counts as full after it refused a write. Longer than the longest pause before a retry:
    /// a server that refuses large writes has room for small ones in between.
    static let refusalMemory: Duration = .seconds(15)

    /// The present faults, each with a sentence that names the server and the correction.
    private(set) var faults: [Fault: String] = [:]
    /// Bytes used on the fullest server.
    private(set) var usedMemory: Int64 = 0
    /// Limit of the fullest server in bytes; 0 for no limit.
    private(set) var maxMemory: Int64 = 0
    private var refusals: UInt64 = 0
    private var fullUntil: ContinuousClock.Instant?

    /// The faults that have begun, and those that have ended.
    struct Change: Hashable {
        var begun: [Fault] = []
        var ended: [Fault] = []
    }

    /// Processes the servers' answers.
    ///
    /// - Parameter refusals: the number of writes refused so far because memory is full.
    mutating func receive(
        _ servers: [(server: String, information: RedisServerInformation?)], refusals: UInt64,
        now: ContinuousClock.Instant
    ) -> Change {
        if refusals > self.refusals { self.fullUntil = now + Self.refusalMemory }
        self.refusals = refusals
        var found: [Fault: String] = [:]
        for (server, information) in servers {
            if information?.hasHistory != true { found[.historyHidden] = Self.historyHidden(server) }
            guard let policy = information?.evictionPolicy else { continue }
            if let sentence = Self.evictsAll(policy, server) { found[.evictsAll] = sentence }
            if policy.hasPrefix("volatile-") { found[.evictsExpiring] = Self.evictsExpiring(policy, server) }
        }
        let fullest = servers.compactMap { server in
            server.information.map { (server.server, used: $0.usedMemory ?? 0, limit: $0.maxMemory ?? 0) }
        }.max { Self.share($0.used, $0.limit) < Self.share($1.used, $1.limit) }
        (self.usedMemory, self.maxMemory) = (fullest?.used ?? 0, fullest?.limit ?? 0)
        let isFull = self.fullUntil.map { now < $0 } ?? false
        if let (server, used, limit) = fullest, isFull || limit > 0 && used >= limit {
            found[.full] =
                "Redis is full: used_memory \(used) of maxmemory \(limit) at \(server); orders that grow, "
                + "registrations and pictures wait until there is room: raise maxmemory or remove orders"
        }
        return self.change(to: found)
    }

    /// Notes that no server can be used, since it is too old.
    mutating func refused(_ reason: String) -> Change { self.change(to: [.unsupported: reason]) }

    private mutating func change(to found: [Fault: String]) -> Change {
        let before = self.faults
        self.faults = found
        return Change(
            begun: Fault.allCases.filter { found[$0] != nil && before[$0] == nil },
            ended: Fault.allCases.filter { found[$0] == nil && before[$0] != nil })
    }

    private static func share(_ used: Int64, _ limit: Int64) -> Double { limit > 0 ? Double(used) / Double(limit) : 0 }

    /// Returns the sentence about a policy under which no order is safe; nil for any other.
    static func evictsAll(_ policy: String, _ server: String) -> String? {
        guard policy.hasPrefix("allkeys-") else { return nil }
        return "maxmemory-policy is \(policy) at \(server): with it Redis silently deletes orders, registrations and "
            + "pictures; set maxmemory-policy to noeviction"
    }

    private static func evictsExpiring(_ policy: String, _ server: String) -> String {
        "maxmemory-policy is \(policy) at \(server): a full Redis first deletes the traces of removed orders and ended "
            + "registrations, so that a change or a registration that comes again late brings them back; "
            + "set maxmemory-policy to noeviction"
    }

    private static func historyHidden(_ server: String) -> String {
        "INFO does not report master_replid at \(server): a fail-over to older data cannot be detected; allow "
            + "the user +info, or use a service that does not hide it"
    }
}
