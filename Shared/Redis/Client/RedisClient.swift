public import NIOCore
import Synchronization

/// A pipelining client: one connection per event loop (and master of a cluster), shared by all callers.
///
/// Owner: each event loop owns its `EventLoopConnections`; this holds them all and is safe to use from anywhere.
/// Bounded: commands and bytes per link (`queueFull`), time per command (`RedisConfiguration.commandDeadline`; one that
/// had to wait for a connection gets a quarter more).
/// Detects a server that belongs to a cluster; commands then go to the masters of their keys, the answers return in
/// order, and commands that a node refuses because the slot has moved are sent again (`ScatteredPipeline`). In a
/// pipeline over several masters the commands of one that does not answer are answered with an error `UNANSWERED`.
/// Commands are written at most once. One that was written and then lost with its connection fails with `.connection`,
/// one without an answer in time with `.timeout`; both may have taken effect. The client reconnects by itself.
/// Cancelling a task that waits does not end the wait: it ends with the answer or at the deadline, because the command
/// is in flight and its answer must be read from the connection anyway.
/// `close()` must be called before the event loops are shut down.
public final class RedisClient: Sendable {
    private struct LoopConnection: Sendable {
        let eventLoop: any EventLoop
        let way: NIOLoopBoundBox<EventLoopConnections>
    }

    let known = KnownServers()
    /// The server as configured, for messages: `host:port`, or the name that sentinels know.
    let name: String

    private let connections: [LoopConnection]
    private let indexOfLoop: [ObjectIdentifier: Int]
    private let onAnswer: (@Sendable (String, Duration) -> Void)?

    /// Makes connections on first use, or by `connect()`.
    /// - Parameter eventLoopGroup: gets one connection per loop, to each master.
    public init(_ configuration: RedisConfiguration, eventLoopGroup: any EventLoopGroup) {
        let known = self.known
        self.onAnswer = configuration.onAnswer
        self.name = configuration.masterName ?? configuration.addresses.map(\.description).joined(separator: ",")
        self.connections = eventLoopGroup.makeIterator().map { eventLoop in
            let way = EventLoopConnections(configuration, eventLoop: eventLoop, known: known)
            return LoopConnection(eventLoop: eventLoop, way: .makeBoxSendingValue(way, eventLoop: eventLoop))
        }
        self.indexOfLoop = Dictionary(
            self.connections.enumerated().map { (ObjectIdentifier($1.eventLoop), $0) },
            uniquingKeysWith: { first, _ in first })
        precondition(!self.connections.isEmpty, "an event loop group has a loop")
    }

    /// Makes one connection, or one to each master, for commands that wait: they hold up those behind them.
    public convenience init(waiting configuration: RedisConfiguration, eventLoopGroup: any EventLoopGroup) {
        self.init(configuration, eventLoopGroup: eventLoopGroup.next())
    }

    /// Makes all connections.
    /// - Throws: `RedisError` of the first that could not be made in time; attempts continue.
    public func connect() async throws(RedisError) {
        for connection in self.connections { connection.eventLoop.execute { connection.way.value.start() } }
        for connection in self.connections { _ = try await self.run([RedisCommand("PING")], on: connection) }
    }

    /// Sends one command.
    /// - Throws: `RedisError`, with code `.server` for an error reply.
    public func send(_ command: RedisCommand) async throws(RedisError) -> RedisValue {
        let value = try await self.run([command], on: self.anyConnection).first ?? .null
        if let error = value.serverError { throw error }
        return value
    }

    /// Sends commands together and returns their answers in order. Error replies are elements of the array.
    ///
    /// Not a transaction: commands of other connections may run between them.
    public func pipeline(_ commands: [RedisCommand]) async throws(RedisError) -> [RedisValue] {
        try await self.run(commands, on: self.anyConnection)
    }

    /// Sends commands followed by checks: the answers of the checks hold for all commands answered before them.
    ///
    /// In a cluster a command has an answer only if a check was answered after it on the same connection; while its
    /// slot is being moved to another master it has a retriable error.
    /// - Returns: the answers of the commands, then those of the checks.
    public func pipeline(
        _ commands: [RedisCommand], checkedBy checks: [RedisCommand]
    ) async throws(RedisError) -> [RedisValue] {
        try await self.run(commands + checks, checks: checks.count, on: self.anyConnection)
    }

    /// Sends commands like `pipeline(_:)`, for callers on an event loop.
    ///
    /// On a loop of the group, called on that loop, there is no thread change and the future completes while the answer
    /// is being read. The failure is a `RedisError`.
    /// - Parameter checks: the number of commands at the end that are checks, as in `pipeline(_:checkedBy:)`.
    public func pipeline(
        _ commands: [RedisCommand], checks: Int = 0, on eventLoop: any EventLoop
    ) -> EventLoopFuture<[RedisValue]> {
        let promise = eventLoop.makePromise(of: [RedisValue].self)
        self.pipeline(commands, checks: checks, on: eventLoop) { promise.completeWith($0.mapError { $0 }) }
        return promise.futureResult
    }

    /// The same without a future, which costs three allocations.
    ///
    /// - Parameter completion: called on the client's loop, which is the caller's if that is of the group.
    public func pipeline(
        _ commands: [RedisCommand], checks: Int = 0, on eventLoop: any EventLoop,
        _ completion: @escaping @Sendable (Result<[RedisValue], RedisError>) -> Void
    ) {
        precondition(0...commands.count ~= checks, "checks are commands")
        guard !commands.isEmpty else { return completion(.success([])) }
        var timed = completion
        if let onAnswer, let operation = commands[0].operation {
            let began = ContinuousClock.now
            timed = { result in
                onAnswer(operation, .now - began)
                completion(result)
            }
        }
        let index = self.indexOfLoop[ObjectIdentifier(eventLoop)]
        let connection = index.map { self.connections[$0] } ?? self.anyConnection
        if connection.eventLoop.inEventLoop {
            connection.way.value.submit(
                RedisLink.Request(commands: commands, checks: checks, completion: .result(timed)))
        } else {
            connection.eventLoop.execute { [timed] in
                let request = RedisLink.Request(commands: commands, checks: checks, completion: .result(timed))
                connection.way.value.submit(request)
            }
        }
    }

    /// Fails pending commands with `.closed` and closes the connections; returns when they are closed.
    public func close() async {
        for connection in self.connections {
            // The only failures are those of a loop that was shut down, and then the socket is closed as well.
            try? await connection.eventLoop.flatSubmit { connection.way.value.close() }.get()
        }
    }

    /// A link for callers that are not on a loop. Random, so that no counter is shared between threads.
    private var anyConnection: LoopConnection { self.connections[Int.random(in: 0..<self.connections.count)] }

    private func run(
        _ commands: [RedisCommand], checks: Int = 0, on connection: LoopConnection
    ) async throws(RedisError) -> [RedisValue] {
        guard !commands.isEmpty else { return [] }
        let began = ContinuousClock.now
        defer {
            if let onAnswer, let operation = commands[0].operation { onAnswer(operation, .now - began) }
        }
        return try await withCheckedContinuation { continuation in
            connection.eventLoop.execute {
                let request = RedisLink.Request(
                    commands: commands, checks: checks, completion: .result { continuation.resume(returning: $0) })
                connection.way.value.submit(request)
            }
        }.get()
    }
}

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

    /// Returns one hash tag per master of a cluster; empty for a single server. See `RedisTopology.hashTags`.
    public func hashTags() async throws(RedisError) -> [String] { try await self.topology().hashTags }

    /// As `hashTags()` without asking: also empty until the first connection is made.
    public var knownHashTags: [String] { self.known.topology?.hashTags ?? [] }

    /// Returns the hash tag of the master that serves a key, as far as it is known without asking: empty for a single
    /// server, nil in a cluster for a slot that no master serves.
    public func knownHashTag(of key: String) -> String? {
        guard let topology = self.known.topology, !topology.hashTags.isEmpty else { return "" }
        return topology.hashTag(of: key)
    }

    /// Returns the hash tag of the master that serves a key; nil for a single server.
    public func hashTag(of key: String) async throws(RedisError) -> String? {
        try await self.topology().hashTag(of: key)
    }
}

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

/// A Lua script that runs in Redis. Make it once and keep it: it remembers the digest under which Redis knows it.
///
/// The digest is the answer to SCRIPT LOAD; it depends on the source only, so it holds for every server.
public final class RedisScript: Sendable {
    /// The Lua source.
    public let source: String
    private let digest = Mutex<String?>(nil)

    public init(_ source: String) { self.source = source }

    /// The SHA-1 of the source in hex, nil until it has been loaded once.
    var knownDigest: String? { self.digest.withLock { $0 } }

    /// Stores the answer to SCRIPT LOAD.
    func learn(_ digest: String) { self.digest.withLock { $0 = digest } }
}

/// One run of a script with its keys and arguments.
public struct RedisInvocation: Sendable {
    /// The script to run.
    public let script: RedisScript
    /// `KEYS`; all in one slot, see Design §7.
    public let keys: [String]
    /// `ARGV`
    public let arguments: [RedisArgument]

    public init(_ script: RedisScript, keys: [String], arguments: [RedisArgument]) {
        self.script = script
        self.keys = keys
        self.arguments = arguments
    }

    /// EVALSHA. Redis does not know the script until it has been loaded once.
    var command: RedisCommand { self.command("EVALSHA", self.script.knownDigest ?? "") }

    /// EVAL: runs, and loads, the script also on a server that does not know it.
    var commandWithSource: RedisCommand { self.command("EVAL", self.script.source) }

    private func command(_ name: String, _ script: String) -> RedisCommand {
        var arguments: [RedisArgument] = [.string(name), .string(script), .integer(Int64(self.keys.count))]
        arguments.reserveCapacity(3 + self.keys.count + self.arguments.count)
        for key in self.keys { arguments.append(.string(key)) }
        arguments += self.arguments
        return RedisCommand(arguments)
    }
}
