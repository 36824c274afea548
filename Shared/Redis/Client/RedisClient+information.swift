extension RedisClient {
    /// Asks the server, or each master of a cluster, for INFO.
    ///
    /// - Returns: nil for one that does not answer or does not allow it.
    /// - Throws: `RedisError` if there is no connection within the deadline; with code `.unsupported` if the reason is
    ///   a server that is too old.
    public func information() async throws(RedisError) -> [(server: String, information: RedisServerInformation?)] {
        let masters = try await self.topology().masters
        guard !masters.isEmpty else {
            let reply = try await self.pipeline([RedisCommand("INFO")]).first
            return [(self.name, reply?.text.map(RedisServerInformation.init))]
        }
        let replies = try await self.pipeline(masters.map { RedisCommand("INFO", .place(.master($0))) })
        return zip(masters, replies).map { ("\($0)", $1.text.map(RedisServerInformation.init)) }
    }

    /// Grows with each write that a server refused because its memory is full.
    public var memoryRefusals: UInt64 { self.known.memoryRefusals }
}
