/// The master that serves each slot of a cluster, from a node's latest answer and later redirections.
struct SlotMap: Hashable, Sendable {
    /// More nodes than any cluster has (the specification suggests 1000 at most); any beyond are ignored.
    static let nodeLimit = 2000
    private static let nobody = UInt16.max

    /// Masters, in the order in which they were named; some may no longer serve a slot.
    private(set) var masters: [NodeAddress] = []
    /// Replicas: they can be asked for the map when no master answers.
    private(set) var replicas: [NodeAddress] = []
    /// For each slot an index of `masters`.
    private var owners = [UInt16](repeating: Self.nobody, count: HashSlot.count)

    /// An empty map.
    init() {}

    /// Reads the answer to CLUSTER SLOTS.
    ///
    /// - Parameter asked: the node that answered.
    /// - Throws: `RedisError` with code `.protocol` if the answer has another form or names no slot.
    /// Source: Redis CLUSTER SLOTS: ranges of first slot, last slot, master, replicas; a node is host, port, …
    init(_ reply: RedisValue, asked: NodeAddress) throws(RedisError) {
        if let error = reply.serverError { throw error }
        guard let ranges = reply.array else { throw Self.error(asked, "not a list") }
        for range in ranges {
            guard let parts = range.array, parts.count >= 3, let first = parts[0].integer, let last = parts[1].integer,
                0 <= first, first <= last, last < HashSlot.count
            else { throw Self.error(asked, "a range of slots was expected") }
            let nodes = parts[2...].compactMap { Self.node($0, asked) }
            guard nodes.count == parts.count - 2, let master = nodes.first else {
                throw Self.error(asked, "host and port of a node were expected")
            }
            for slot in Int(first)...Int(last) { self.move(slot, to: master) }
            for replica in nodes.dropFirst()
            where self.replicas.count < Self.nodeLimit && !self.replicas.contains(replica) {
                self.replicas.append(replica)
            }
        }
        guard !self.masters.isEmpty else { throw Self.error(asked, "no slot is served by anybody") }
    }

    /// Returns the master that serves a slot; nil if none does, or if the number is not a slot.
    func master(of slot: Int) -> NodeAddress? {
        guard self.owners.indices.contains(slot), self.owners[slot] != Self.nobody else { return nil }
        // Only indices of masters are stored, and masters are never removed.
        return self.masters[Int(self.owners[slot])]
    }

    /// Notes that this node serves the slot, for example after a redirection.
    mutating func move(_ slot: Int, to node: NodeAddress) {
        guard self.owners.indices.contains(slot) else { return }
        let index = self.masters.firstIndex(of: node) ?? self.masters.count
        guard index < Self.nodeLimit else { return }
        if index == self.masters.count { self.masters.append(node) }
        self.owners[slot] = UInt16(index)
    }

    /// Masters that serve at least one slot.
    var serving: [NodeAddress] {
        var isServing = [Bool](repeating: false, count: self.masters.count)
        for owner in self.owners where owner != Self.nobody { isServing[Int(owner)] = true }
        return zip(self.masters, isServing).filter(\.1).map(\.0)
    }

    /// For each master that serves slots, the lowest number whose text, as a hash tag, leads to it.
    ///
    /// Mostly below 1024; more are tried for a master with a handful of slots.
    var anchors: [NodeAddress: String] {
        let serving = Set(self.owners).subtracting([Self.nobody])
        var found: [NodeAddress: String] = [:]
        for number in 0..<(1 << 17) where found.count < serving.count {
            let tag = String(number)
            guard let master = self.master(of: HashSlot.of(tag.utf8)), found[master] == nil else { continue }
            found[master] = tag
        }
        return found
    }

    /// The first slot of each run with its master, `0=10.0.0.1:6379 5461= …`.
    var runs: String {
        var text = ""
        var last: NodeAddress?
        for slot in 0..<HashSlot.count {
            let master = self.master(of: slot)
            guard slot == 0 || master != last else { continue }
            last = master
            text += "\(slot)=\(master?.description ?? "") "
        }
        return text
    }

    private static func node(_ value: RedisValue, _ asked: NodeAddress) -> NodeAddress? {
        guard let parts = value.array, parts.count >= 2, let port = parts[1].integer, (1...65535).contains(port),
            parts[0].isNull || parts[0].text != nil
        else { return nil }
        return NodeAddress(announcedHost: parts[0].text, port: Int(port), asked: asked)
    }

    private static func error(_ asked: NodeAddress, _ found: String) -> RedisError {
        RedisError(.protocol, "reading the slots that \(asked) names: \(found)")
    }
}
