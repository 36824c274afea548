extension RedisClient {
    /// Runs scripts, all in one pipeline, and returns their answers in order. Error replies are elements of the array.
    ///
    /// If a server does not know a script (SCRIPT FLUSH, a new master, one to which a redirection leads), only its runs
    /// are repeated, with the source and after the others: runs of one call must not depend on their order.
    public func evaluate(_ invocations: [RedisInvocation]) async throws(RedisError) -> [RedisValue] {
        try await self.evaluate(invocations, checkedBy: [])
    }

    /// Runs scripts with checks, as in `pipeline(_:checkedBy:)`.
    ///
    /// - Returns: the answers of the runs, then those of the checks that were answered last.
    public func evaluate(
        _ invocations: [RedisInvocation], checkedBy checks: [RedisCommand]
    ) async throws(RedisError) -> [RedisValue] {
        try await self.load(invocations)
        var answers = try await self.pipeline(invocations.map(\.command), checkedBy: checks)
        let unknown = invocations.indices.filter { answers[$0].serverError?.serverPrefix == "NOSCRIPT" }
        if unknown.isEmpty { return answers }
        let again = try await self.pipeline(unknown.map { invocations[$0].commandWithSource }, checkedBy: checks)
        for (index, answer) in zip(unknown, again) { answers[index] = answer }
        answers.replaceSubrange(invocations.count..., with: again.suffix(checks.count))
        return answers
    }

    /// Loads each script that was never loaded, at the master of its first run's key.
    ///
    /// - Throws: `RedisError` with code `.server` if Redis cannot compile one.
    private func load(_ invocations: [RedisInvocation]) async throws(RedisError) {
        var new: [RedisInvocation] = []
        for run in invocations where run.script.knownDigest == nil && !new.contains(where: { $0.script === run.script })
        {
            new.append(run)
        }
        if new.isEmpty { return }
        let commands = new.map { run in
            let place = run.keys.first.map { [RedisArgument.place(.key($0))] } ?? []
            return RedisCommand(["SCRIPT", "LOAD", .string(run.script.source)] + place)
        }
        for (run, answer) in zip(new, try await self.pipeline(commands)) {
            if let error = answer.serverError { throw error }
            guard let digest = answer.text else {
                throw RedisError(.protocol, "loading a script: the answer is not a digest")
            }
            run.script.learn(digest)
        }
    }
}
