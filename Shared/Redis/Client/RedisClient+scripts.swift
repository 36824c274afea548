extension RedisClient {
    /// The most repetitions of runs that were refused because the script was not known.
    private static let loadLimit = 3

    /// Runs scripts, all in one pipeline, and returns their answers in order. Error replies are elements of the array.
    ///
    /// A script that Redis does not know (first use, SCRIPT FLUSH, another server) is loaded, and only the runs that
    /// were refused for that are repeated, and so after the others; so runs of one call must not depend on their order.
    /// In a cluster it is loaded on the masters of the refused runs' keys, and if they are refused again (the slot is
    /// being moved elsewhere) on all masters.
    public func evaluate(_ invocations: [RedisInvocation]) async throws(RedisError) -> [RedisValue] {
        try await self.evaluate(invocations, checkedBy: [])
    }

    /// The same with checks, as in `pipeline(_:checkedBy:)`.
    ///
    /// - Returns: the answers of the runs, then those of the checks that were answered last.
    public func evaluate(
        _ invocations: [RedisInvocation], checkedBy checks: [RedisCommand]
    ) async throws(RedisError) -> [RedisValue] {
        try await self.load(invocations.filter { $0.script.knownDigest == nil }, onAll: false)
        var answers = try await self.run(invocations, checks)
        for round in 0..<Self.loadLimit {
            let unknown = invocations.indices.filter { answers[$0].serverError?.serverPrefix == "NOSCRIPT" }
            guard !unknown.isEmpty else { break }
            try await self.load(unknown.map { invocations[$0] }, onAll: round > 0)
            let again = try await self.run(unknown.map { invocations[$0] }, checks)
            for (index, answer) in zip(unknown, again) { answers[index] = answer }
            answers.replaceSubrange(invocations.count..., with: again.suffix(checks.count))
        }
        return answers
    }

    private func run(
        _ invocations: [RedisInvocation], _ checks: [RedisCommand]
    ) async throws(RedisError) -> [RedisValue] {
        // `load` was called for each script, and a digest is never forgotten.
        try await self.pipeline(invocations.map { $0.command(digest: $0.script.knownDigest ?? "") }, checkedBy: checks)
    }

    /// Loads each script once, in a cluster once per master that serves a key of its runs.
    /// - Throws: `RedisError` with code `.server` if Redis cannot compile one.
    private func load(_ invocations: [RedisInvocation], onAll: Bool) async throws(RedisError) {
        guard !invocations.isEmpty else { return }
        let topology = self.known.topology
        var loads: [(script: RedisScript, master: RedisMaster?, place: RedisPlace)] = []
        for invocation in invocations {
            let key = onAll ? nil : invocation.keys.first
            let master = key.flatMap { topology?.master(of: $0) }
            guard !loads.contains(where: { $0.script === invocation.script && $0.master == master }) else { continue }
            loads.append((invocation.script, master, key.map { .key($0) } ?? .everyMaster))
        }
        let commands = loads.map { RedisCommand("SCRIPT", "LOAD", .string($0.script.source), .place($0.place)) }
        for (load, answer) in zip(loads, try await self.pipeline(commands)) {
            if let error = answer.serverError { throw error }
            guard let digest = answer.text else {
                throw RedisError(.protocol, "loading a script: the answer is not a digest")
            }
            load.script.learn(digest)
        }
    }
}
