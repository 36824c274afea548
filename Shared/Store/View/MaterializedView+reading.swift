import Redis

extension MaterializedView {
    /// Reads keys of a complete view, each separately: an answer counts only if the view was complete at its place
    /// before and after it.
    ///
    /// An epoch that is gone never comes back, so two equal ones prove that the view was complete in between.
    /// - Parameter questions: commands with one key each.
    /// - Returns: one result per question, in order.
    /// - Throws: `StoreError` if a single server did not answer, or its view is not complete.
    func read(
        _ questions: [(key: String, command: RedisCommand)], _ operation: String
    ) async throws(StoreError) -> [Result<RedisValue, StoreError>] {
        let asked = try await self.placesOf(questions.map(\.key))
        // Only the places of these keys: another master may be down.
        let places = Set(asked.compactMap(\.self)).sorted()
        let all = self.epochCommands
        let epochs = places.filter { all.indices.contains($0) }.map { all[$0] }
        let replies: [RedisValue]
        do {
            replies = try await self.redis.pipeline(epochs + questions.map(\.command), checkedBy: epochs)
        } catch {
            let failure = StoreError(operation, error)
            // Some masters of these keys may be down while others are not.
            guard all.count > 1 else { throw failure }
            return questions.map { _ in .failure(failure) }
        }
        guard replies.count == questions.count + 2 * epochs.count else {
            throw StoreError(.unavailable, "\(operation): a reply is missing")
        }
        let doubts = zip(replies.prefix(epochs.count), replies.suffix(epochs.count)).map { Self.doubt($0, $1) }
        // With a single server a failure concerns all keys.
        if all.count == 1, let doubt = doubts.first ?? nil { throw doubt }
        let failures = Dictionary(uniqueKeysWithValues: zip(places, doubts))
        return zip(asked, replies.dropFirst(epochs.count)).map { place, answer in
            guard let place, let doubt = failures[place] else {
                return .failure(StoreError(.unavailable, "\(operation): no server has its slot"))
            }
            return doubt.map { .failure($0) } ?? Self.result(answer, operation)
        }
    }

    /// Returns the place of each key; nil for one whose slot no master serves.
    private func placesOf(_ keys: [String]) async throws(StoreError) -> [Int?] {
        try await self.awaitPlaces()
        let places = self.places
        guard places.count > 1 else { return keys.map { _ in 0 } }
        let numbers = Dictionary(places.enumerated().map { ($1, $0) }) { first, _ in first }
        do {
            let topology = try await self.redis.topology()
            return keys.map { topology.anchor(of: $0).flatMap { numbers[$0] } }
        } catch {
            throw StoreError("finding the places of keys", error)
        }
    }

    static func result(_ reply: RedisValue, _ operation: String) -> Result<RedisValue, StoreError> {
        if case .error(let message) = reply { return .failure(StoreError(operation, reply: message)) }
        return .success(reply)
    }

    /// Returns the reason why a value read between two epochs cannot be trusted; nil if it can.
    private static func doubt(_ before: RedisValue, _ after: RedisValue) -> StoreError? {
        for case .error(let message) in [before, after] {
            return StoreError(.unavailable, "reading the epoch: \(message)")
        }
        guard before.text == nil || before != after else { return nil }
        return StoreError(.incomplete, "the view in Redis is not complete, it is being judged or restored")
    }
}
