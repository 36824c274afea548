extension RedisClient {
    /// Grows each time another server, or the same one restarted, answers for keys: a fail-over, a new master, a name
    /// that now leads to another server.
    ///
    /// Data read before that may be newer than the data of the new server. Read the generation before and after a read:
    /// if it is the same, so was the server. It grows before the other server gives its first answer, and commands
    /// submitted from then on do not go to the former server. 0 until the first connection; the first one counts too.
    public var generation: UInt64 { self.known.generation }

    /// Calls `action` each time the generation has grown, for the lifetime of the client.
    ///
    /// - Parameter action: called on an event loop; it must not block.
    public func onAnotherServer(_ action: @escaping @Sendable () -> Void) { self.known.observe(action) }

    /// Returns the masters. Asks Redis only if no connection was made yet.
    /// - Throws: `RedisError` if there is none within the deadline.
    public func topology() async throws(RedisError) -> RedisTopology {
        if let topology = self.known.topology { return topology }
        _ = try await self.send(RedisCommand("PING"))
        return self.known.topology ?? RedisTopology()
    }

    /// Returns one hash tag per master of a cluster; empty for a single server. See `RedisTopology.anchors`.
    public func anchors() async throws(RedisError) -> [String] { try await self.topology().anchors }

    /// As `anchors()` without asking: also empty until the first connection is made.
    public var knownAnchors: [String] { self.known.topology?.anchors ?? [] }

    /// Returns the anchor of the master that serves a key, as far as it is known without asking: empty for a single
    /// server, nil in a cluster for a slot that no master serves.
    public func knownAnchor(of key: String) -> String? {
        guard let topology = self.known.topology, !topology.anchors.isEmpty else { return "" }
        return topology.anchor(of: key)
    }

    /// Returns the anchor of the master that serves a key; nil for a single server.
    public func anchor(of key: String) async throws(RedisError) -> String? { try await self.topology().anchor(of: key) }
}
