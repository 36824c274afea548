import Synchronization

/// The shared knowledge of all links of a client: the topology, the servers that answered, and the number of times
/// another one took over.
///
/// Threads: any. Bounded: one identity per master, and the observers registered at the start.
final class KnownServers: Sendable {
    private let state = Mutex(State())
    private let count = Atomic<UInt64>(0)
    private let refusals = Atomic<UInt64>(0)
    private let observers = Mutex<[@Sendable () -> Void]>([])

    /// Grows each time another server, or the same one restarted, answers for keys.
    var generation: UInt64 { self.count.load(ordering: .acquiring) }

    /// Grows with each write that a server refused because its memory is full.
    var memoryRefusals: UInt64 { self.refusals.load(ordering: .relaxed) }

    /// Notes that a server refused a write because its memory is full.
    func refusedForMemory() { self.refusals.add(1, ordering: .relaxed) }

    /// Calls `action` each time the generation has grown, on the loop that noticed it; it must not block.
    func observe(_ action: @escaping @Sendable () -> Void) { self.observers.withLock { $0.append(action) } }

    /// The identifier of the server that answered last; nil for a server that does not report one, and for a cluster.
    var serverIdentifier: String? { self.state.withLock { $0.serverIdentifier } }

    /// nil until the first connection is made.
    var topology: RedisTopology? { self.state.withLock { $0.topology } }

    /// Notes that a connection to the single server is established.
    ///
    /// - Parameters:
    ///   - identifier: the server's, nil if it does not report one: each connection may then be to another server.
    ///   - isFirst: true if the link had none before.
    func connected(_ identifier: String?, isFirst: Bool) {
        self.update { $0.connected(identifier, isFirst: isFirst) }
    }

    /// Notes that a connection to a node of a cluster is established.
    func connected(to node: NodeAddress, _ identifier: String?, isFirst: Bool) {
        self.update { $0.connected(to: node, identifier, isFirst: isFirst) }
    }

    /// Notes the slot map that a node returned.
    func learned(_ map: SlotMap) { self.update { $0.learned(map) } }

    /// Notes the node that another one named as serving a slot. If it is unknown it has taken over, though no map shows
    /// that yet.
    func redirected(to node: NodeAddress) { self.update { $0.redirected(to: node) } }

    private func update(_ change: (inout State) -> Bool) {
        let hasGrown = self.state.withLock { state in
            let isAnother = change(&state)
            if isAnother { self.count.add(1, ordering: .acquiringAndReleasing) }
            return isAnother
        }
        guard hasGrown else { return }
        for action in self.observers.withLock({ $0 }) { action() }
    }

    /// The decisions, without the lock. Each returns true if another server took over.
    struct State {
        private(set) var topology: RedisTopology?
        private(set) var serverIdentifier: String?
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
            // A node that is not a master answers for no key.
            guard let known = self.masters[node] else { return false }
            guard let identifier else { return !isFirst }
            self.masters[node] = .some(identifier)
            guard let known else { return false }
            return known != identifier
        }

        mutating func redirected(to node: NodeAddress) -> Bool {
            guard self.masters[node] == nil else { return false }
            self.masters[node] = .some(nil)
            return true
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
