import Redis

extension RedisClient {
    /// Sends one command.
    ///
    /// - Parameter operation: for messages: `looking up a token`.
    /// - Throws: also for a reply that is an error.
    func reply(to command: RedisCommand, _ operation: String) async throws(StoreError) -> RedisValue {
        let reply: RedisValue
        do {
            reply = try await self.send(command)
        } catch {
            throw StoreError(operation, error)
        }
        if case .error(let message) = reply { throw StoreError(operation, reply: message) }
        return reply
    }

    /// Runs one script; otherwise like the other.
    func reply(to invocation: RedisInvocation, _ operation: String) async throws(StoreError) -> RedisValue {
        let reply: RedisValue?
        do {
            reply = try await self.evaluate([invocation]).first
        } catch {
            throw StoreError(operation, error)
        }
        guard let reply else { throw StoreError(.unavailable, "\(operation): no reply") }
        if case .error(let message) = reply { throw StoreError(operation, reply: message) }
        return reply
    }
}
