extension RedisClient {
    /// Grows whenever keys are answered by another server, or by the same one restarted: a fail-over, a new master, a
    /// server whose name leads elsewhere now.
    ///
    /// What was read before may be newer than what stands there now. Read it before and after: if it is the same, so
    /// was the server: it grows before the other server gives its first answer, and what is asked from then on is not
    /// asked of the server before. 0 until the first connection; the first one counts too.
    public var generation: UInt64 { self.known.generation }

    /// Calls something each time that the generation has grown, for as long as the client lives.
    ///
    /// - Parameter action: called on an event loop; it must not wait.
    public func onAnotherServer(_ action: @escaping @Sendable () -> Void) { self.known.observe(action) }

    /// Which masters there are. Asks Redis only if no connection was made yet.
    /// - Throws: `RedisError` when there is none within the deadline.
    public func topology() async throws(RedisError) -> RedisTopology {
        if let topology = self.known.topology { return topology }
        _ = try await self.send(RedisCommand("PING"))
        return self.known.topology ?? RedisTopology()
    }

    /// One hash tag per master of a cluster; empty for a single server. See `RedisTopology.anchors`.
    public func anchors() async throws(RedisError) -> [String] { try await self.topology().anchors }

    /// As `anchors()` without asking: also empty as long as no connection was made.
    public var knownAnchors: [String] { self.known.topology?.anchors ?? [] }

    /// The anchor of the master that serves a key, as far as it is known without asking: empty for a single server, nil
    /// in a cluster for a slot that nobody serves.
    public func knownAnchor(of key: String) -> String? {
        guard let topology = self.known.topology, !topology.anchors.isEmpty else { return "" }
        return topology.anchor(of: key)
    }

    /// The anchor of the master that serves a key; nil for a single server.
    public func anchor(of key: String) async throws(RedisError) -> String? { try await self.topology().anchor(of: key) }
}
