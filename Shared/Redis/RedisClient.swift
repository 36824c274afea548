public import NIOCore

/// A pipelining client: one connection per event loop, shared by all who call.
///
/// Owner: each event loop owns its `RedisLink`; this holds them all and is safe to use from anywhere.
/// Bounded: commands and bytes per link (`queueFull`), time per command (`RedisConfiguration.commandDeadline`; one that
/// had to wait for a connection gets a quarter more).
/// Commands are written at most once. One that was written and then lost with its connection fails with `.connection`,
/// one without an answer in time with `.timeout`; both may have taken effect. The connection comes back by itself.
/// Cancelling a task that waits does not end the wait: it ends with the answer or at the deadline, because the command
/// is under way and its answer must be taken from the connection anyway.
/// `close()` must be called before the event loops are shut down.
public final class RedisClient: Sendable {
    private struct Lane: Sendable {
        let eventLoop: any EventLoop
        let link: NIOLoopBoundBox<RedisLink>
    }

    private let lanes: [Lane]
    private let laneOfLoop: [ObjectIdentifier: Int]

    /// Connections are made when they are needed first, or by `connect()`.
    /// - Parameter eventLoopGroup: gets one connection per loop.
    public init(_ configuration: RedisConfiguration, eventLoopGroup: any EventLoopGroup) {
        self.lanes = eventLoopGroup.makeIterator().map { eventLoop in
            let link = RedisLink(configuration, eventLoop: eventLoop)
            return Lane(eventLoop: eventLoop, link: .makeBoxSendingValue(link, eventLoop: eventLoop))
        }
        self.laneOfLoop = Dictionary(
            self.lanes.enumerated().map { (ObjectIdentifier($1.eventLoop), $0) },
            uniquingKeysWith: { first, _ in first })
        precondition(!self.lanes.isEmpty, "an event loop group has a loop")
    }

    /// Makes all connections.
    /// - Throws: `RedisError` of the first that could not be made in time; it is tried further.
    public func connect() async throws(RedisError) {
        for lane in self.lanes { lane.eventLoop.execute { lane.link.value.start() } }
        for lane in self.lanes { _ = try await self.run([RedisCommand("PING")], on: lane) }
    }

    /// Sends one command.
    /// - Throws: `RedisError`, with code `.server` for an error reply.
    public func send(_ command: RedisCommand) async throws(RedisError) -> RedisValue {
        let value = try await self.run([command], on: self.anyLane).first ?? .null
        if let error = value.serverError { throw error }
        return value
    }

    /// Sends commands at once and returns their answers in order. Error replies stand in the array.
    ///
    /// No transaction: commands of other connections may run between them.
    public func pipeline(_ commands: [RedisCommand]) async throws(RedisError) -> [RedisValue] {
        try await self.run(commands, on: self.anyLane)
    }

    /// As `pipeline(_:)` for callers that live on an event loop.
    ///
    /// On a loop of the group, called on that loop, no thread is changed and the future completes while the answer is
    /// being read. The failure is a `RedisError`.
    public func pipeline(
        _ commands: [RedisCommand], on eventLoop: any EventLoop
    ) -> EventLoopFuture<[RedisValue]> {
        guard !commands.isEmpty else { return eventLoop.makeSucceededFuture([]) }
        let promise = eventLoop.makePromise(of: [RedisValue].self)
        let index = self.laneOfLoop[ObjectIdentifier(eventLoop)]
        let lane = index.map { self.lanes[$0] } ?? self.anyLane
        if lane.eventLoop.inEventLoop {
            lane.link.value.submit(RedisLink.Request(commands: commands, completion: .promise(promise)))
        } else {
            lane.eventLoop.execute {
                lane.link.value.submit(RedisLink.Request(commands: commands, completion: .promise(promise)))
            }
        }
        return promise.futureResult
    }

    /// Fails what is pending with `.closed` and closes the connections; returns when they are closed.
    public func close() async {
        for lane in self.lanes {
            // The only failures are those of a loop that was shut down, and then the socket is closed as well.
            try? await lane.eventLoop.flatSubmit {
                lane.link.value.close() ?? lane.eventLoop.makeSucceededVoidFuture()
            }.get()
        }
    }

    /// A link for callers that have no loop. Random, so that no counter is shared between threads.
    private var anyLane: Lane { self.lanes[Int.random(in: 0..<self.lanes.count)] }

    private func run(_ commands: [RedisCommand], on lane: Lane) async throws(RedisError) -> [RedisValue] {
        guard !commands.isEmpty else { return [] }
        return try await withCheckedContinuation { continuation in
            lane.eventLoop.execute {
                let request = RedisLink.Request(commands: commands, completion: .continuation(continuation))
                lane.link.value.submit(request)
            }
        }.get()
    }
}

// MARK: Scripts

extension RedisClient {
    /// Runs scripts, all in one pipeline, and returns their answers in order. Error replies stand in the array.
    ///
    /// A script that Redis does not know (first use, SCRIPT FLUSH, another server) is loaded, and only the runs that
    /// were refused for that are repeated, after the others then; so runs of one call must not depend on their order.
    public func evaluate(_ invocations: [RedisInvocation]) async throws(RedisError) -> [RedisValue] {
        try await self.load(invocations.map(\.script).filter { $0.knownDigest == nil })
        var answers = try await self.run(invocations)
        let unknown = answers.indices.filter { answers[$0].serverError?.serverPrefix == "NOSCRIPT" }
        guard !unknown.isEmpty else { return answers }
        try await self.load(unknown.map { invocations[$0].script })
        for (index, answer) in zip(unknown, try await self.run(unknown.map { invocations[$0] })) {
            answers[index] = answer
        }
        return answers
    }

    private func run(_ invocations: [RedisInvocation]) async throws(RedisError) -> [RedisValue] {
        // `load` was called for each script, and a digest is never forgotten.
        try await self.pipeline(invocations.map { $0.command(digest: $0.script.knownDigest ?? "") })
    }

    /// Loads each script once.
    /// - Throws: `RedisError` with code `.server` when Redis cannot compile one.
    private func load(_ scripts: [RedisScript]) async throws(RedisError) {
        var distinct: [RedisScript] = []
        for script in scripts where !distinct.contains(where: { $0 === script }) { distinct.append(script) }
        let commands = distinct.map { RedisCommand("SCRIPT", "LOAD", .string($0.source)) }
        for (script, answer) in zip(distinct, try await self.pipeline(commands)) {
            if let error = answer.serverError { throw error }
            guard let digest = answer.text else {
                throw RedisError(.protocol, "loading a script: the answer is not a digest")
            }
            script.learn(digest)
        }
    }
}
