import Synchronization

/// What all links of a client have learnt together: whether there is a cluster, which servers answered, how often
/// another one took over.
///
/// Threads: any. Bounded: one identity per master.
final class KnownServers: Sendable {
    private let state = Mutex(State())
    private let count = Atomic<UInt64>(0)

    /// Grows whenever another server, or the same one restarted, answers for keys.
    var generation: UInt64 { self.count.load(ordering: .acquiring) }

    /// nil until the first connection is made.
    var topology: RedisTopology? { self.state.withLock { $0.topology } }

    /// A connection to the single server stands.
    ///
    /// - Parameters:
    ///   - identifier: the server's, nil if it does not tell: it may be another one each time then.
    ///   - isFirst: the link had none before.
    func connected(_ identifier: String?, isFirst: Bool) {
        self.note { $0.connected(identifier, isFirst: isFirst) }
    }

    /// A connection to a node of a cluster stands.
    func connected(to node: NodeAddress, _ identifier: String?, isFirst: Bool) {
        self.note { $0.connected(to: node, identifier, isFirst: isFirst) }
    }

    /// A node told which slots are whose.
    func learned(_ map: SlotMap) { self.note { $0.learned(map) } }

    private func note(_ change: (inout State) -> Bool) {
        self.state.withLock { state in
            if change(&state) { self.count.add(1, ordering: .acquiringAndReleasing) }
        }
    }

    /// The decisions, without the lock. Each returns whether another server took over.
    struct State {
        private(set) var topology: RedisTopology?
        private var serverIdentifier: String?
        private var masters: [NodeAddress: String?] = [:]
        private var map: SlotMap?

        mutating func connected(_ identifier: String?, isFirst: Bool) -> Bool {
            let known = self.topology == nil ? nil : self.serverIdentifier
            let isNew = self.topology == nil
            if isNew { self.topology = RedisTopology() }
            guard let identifier else { return isNew || !isFirst }
            self.serverIdentifier = identifier
            return identifier != known
        }

        mutating func connected(to node: NodeAddress, _ identifier: String?, isFirst: Bool) -> Bool {
            // Who is no master answers for no key.
            guard let known = self.masters[node] else { return false }
            guard let identifier else { return !isFirst }
            self.masters[node] = .some(identifier)
            guard let known else { return false }
            return known != identifier
        }

        mutating func learned(_ map: SlotMap) -> Bool {
            guard map != self.map else { return false }
            self.map = map
            self.topology = RedisTopology(map)
            let serving = map.serving
            let isNew = serving.contains { self.masters[$0] == nil }
            var masters: [NodeAddress: String?] = [:]
            for master in serving { masters[master] = .some(self.masters[master] ?? nil) }
            self.masters = masters
            return isNew
        }
    }
}
