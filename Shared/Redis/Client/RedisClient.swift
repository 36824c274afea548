public import NIOCore

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

    /// Makes connections on first use, or by `connect()`.
    /// - Parameter eventLoopGroup: gets one connection per loop, to each master.
    public init(_ configuration: RedisConfiguration, eventLoopGroup: any EventLoopGroup) {
        let known = self.known
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
        precondition(0...commands.count ~= checks, "checks are commands")
        guard !commands.isEmpty else { return eventLoop.makeSucceededFuture([]) }
        let promise = eventLoop.makePromise(of: [RedisValue].self)
        let index = self.indexOfLoop[ObjectIdentifier(eventLoop)]
        let connection = index.map { self.connections[$0] } ?? self.anyConnection
        if connection.eventLoop.inEventLoop {
            connection.way.value.submit(
                RedisLink.Request(commands: commands, checks: checks, completion: .promise(promise)))
        } else {
            connection.eventLoop.execute {
                let request = RedisLink.Request(commands: commands, checks: checks, completion: .promise(promise))
                connection.way.value.submit(request)
            }
        }
        return promise.futureResult
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
        return try await withCheckedContinuation { continuation in
            connection.eventLoop.execute {
                let request = RedisLink.Request(
                    commands: commands, checks: checks, completion: .continuation(continuation))
                connection.way.value.submit(request)
            }
        }.get()
    }
}
