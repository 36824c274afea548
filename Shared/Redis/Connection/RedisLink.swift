import Cryptography
import NIOCore
import NIOPosix
import NIOSSL

/// The connection of one event loop, replaced when it is lost. Runs on that loop only.
///
/// Thin: `LinkStateMachine` decides, this writes, reads the clock, arms one timer and completes requests. Completing a
/// request may immediately run its owner's code, which may submit the next one; so each call of the machine has
/// returned before anything is completed.
final class RedisLink {
    /// Commands, and the completion that waits for their answers.
    struct Request {
        /// The way answers are returned; used exactly once.
        enum Completion {
            /// Called on the loop with the answers, or with the reason why there are none.
            case result((Result<[RedisValue], RedisError>) -> Void)
            /// Called on the loop; the link may also hand the commands back.
            case closure((Outcome) -> Void)
        }
        /// The argument of a closure.
        enum Outcome {
            case answers([RedisValue])
            case failed(RedisError)
            /// It was never written and the link has dropped it.
            case unsent
        }
        let commands: [RedisCommand]
        /// The number of commands at the end that are checks, see `ScatteredPipeline`.
        var checks = 0
        let completion: Completion
    }

    typealias Machine = LinkStateMachine<Request>

    /// An event for the owner.
    enum Event {
        /// A connection can be used.
        case prepared(NodeAddress, LinkPreparation.Findings, isFirst: Bool)
        /// The connection, or an attempt to make one, has ended; the next attempt follows by itself.
        case lost(RedisError)
        /// The server refused a write because its memory is full.
        case outOfMemory
        /// The server belongs to a cluster; the link is closed. These requests waited for it.
        case foundCluster(SlotMap, [Request])
    }

    /// The source of the address to connect to.
    enum Target {
        case address(NodeAddress)
        case sentinels(MasterFinder)
    }

    private static let keptBufferCapacity = 1 << 20

    private let eventLoop: any EventLoop
    private let configuration: RedisConfiguration
    private let purpose: LinkPreparation.Purpose
    private let target: Target
    private let onEvent: (Event) -> Void
    /// The address of the present connection, or of the present attempt.
    private var address: NodeAddress
    private var hasBeenPrepared = false
    private var machine: Machine
    private var channel: (any Channel)?
    private var handler: ConnectionHandler?
    /// Bytes that are written at the end of this tick.
    private var outgoing = ByteBuffer()
    private var isFlushScheduled = false
    private var timer: (deadline: NIODeadline, task: Scheduled<Void>)?
    private var pause: Scheduled<Void>?

    /// - Parameter onEvent: called on the loop, in the midst of the link's own work: it may submit, and close.
    init(
        _ configuration: RedisConfiguration, _ purpose: LinkPreparation.Purpose, to target: Target,
        eventLoop: any EventLoop, onEvent: @escaping (Event) -> Void
    ) {
        self.configuration = configuration
        self.purpose = purpose
        self.target = target
        self.onEvent = onEvent
        switch target {
        case .address(let address): self.address = address
        case .sentinels: self.address = configuration.addresses[0]
        }
        self.eventLoop = eventLoop
        self.machine = Machine(
            limits: Machine.Limits(
                commands: configuration.commandLimit, bytes: configuration.byteLimit,
                commandDeadline: TimeAmount(configuration.commandDeadline),
                preparationDeadline: TimeAmount(configuration.connectDeadline)))
    }

    /// Accepts a request. It is completed exactly once, possibly before this returns.
    func submit(_ request: Request) {
        let bytes = request.commands.reduce(0) { $0 + $1.encodedLengthBound }
        switch self.machine.submit(request, commands: request.commands.count, bytes: bytes, now: .now()) {
        case .write: self.write(request.commands)
        case .wait: break
        case .connect: self.connect()
        case .fail(let error): request.fail(error)
        }
        self.armTimer()
    }

    /// Makes a connection before there is a request.
    func start() {
        if self.machine.start() { self.connect() }
    }

    /// Fails the pending requests and closes the connection.
    /// - Returns: completed when the socket is closed; nil if there is none.
    func close() -> EventLoopFuture<Void>? {
        let requests = self.machine.close()
        let closed = self.channel?.closeFuture
        self.timer?.task.cancel()
        self.pause?.cancel()
        if case .sentinels(let finder) = self.target { finder.close() }
        self.dropConnection()
        let error = RedisError(.closed, "waiting for an answer: the client was closed")
        for request in requests { request.fail(error) }
        return closed
    }

    /// True while requests are written as they arrive.
    var isReady: Bool { self.machine.state == .ready }

    /// True if no request waits or is unanswered.
    var isIdle: Bool { self.machine.isIdle }

    /// Drops the requests that were not written: closures get `.unsent`, others fail.
    func giveUpWaiting() {
        let error = RedisError(.connection, "waiting for a connection: the server serves others now")
        for request in self.machine.takeWaiting() {
            if case .closure(let completion) = request.completion { completion(.unsent) } else { request.fail(error) }
        }
    }

    /// Processes a complete reply. Called by the handler.
    func received(_ reply: RedisValue) {
        if case .error(let text) = reply, text.hasPrefix("OOM") { self.onEvent(.outOfMemory) }
        switch self.machine.received(reply, now: .now()) {
        case .none: break
        case .complete(let request, let answers): request.succeed(answers)
        case .completeAndReplace(let request, let answers, let replacement):
            self.replaceConnection(replacement)
            request.succeed(answers)
        case .write(let requests):
            self.onEvent(.prepared(self.address, self.machine.findings, isFirst: !self.hasBeenPrepared))
            self.hasBeenPrepared = true
            for request in requests { self.write(request.commands) }
            self.armTimer()
        case .divert(let requests): self.divert(requests)
        case .replace(let replacement): self.replaceConnection(replacement)
        }
    }

    /// Replaces a connection that has ended, or must end. Called by the handler.
    func lost(_ error: any Error) {
        let reason = (error as? RedisError) ?? self.connectionError(error)
        if let replacement = self.machine.lost(reason) { self.replaceConnection(replacement) }
    }
}

// MARK: Connecting

extension RedisLink {
    private func connect() {
        switch self.target {
        case .address(let address): self.connect(to: address)
        case .sentinels(let finder):
            finder.find { found in
                do throws(RedisError) { self.connect(to: try found.get()) } catch { self.lost(error) }
            }
        }
    }

    private func connect(to address: NodeAddress) {
        self.address = address
        let configuration = self.configuration
        ClientBootstrap(group: self.eventLoop)
            .connectTimeout(TimeAmount(configuration.connectDeadline))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.socketOption(.so_keepalive), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let tls = configuration.tls {
                        let handler = try configuration.makeTLSHandler(tls, for: address.host)
                        try channel.pipeline.syncOperations.addHandler(handler)
                    }
                    try channel.pipeline.syncOperations.addHandler(ConnectionHandler())
                }
            }
            .connect(host: address.host, port: address.port)
            .assumeIsolated()
            .whenComplete { self.connected($0) }
    }

    private func connected(_ result: Result<any Channel, any Error>) {
        switch result {
        case .failure(let error): self.lost(error)
        case .success(let channel):
            let preparation = self.configuration.preparation(for: self.purpose)
            guard self.machine.connected(preparation, now: .now()) else {
                channel.close(promise: nil)
                return
            }
            guard channel.isActive,
                let handler = try? channel.pipeline.syncOperations.handler(type: ConnectionHandler.self)
            else {
                self.lost(ChannelError.eof)
                return
            }
            handler.adopt(by: self)
            self.handler = handler
            self.channel = channel
            self.write(preparation.steps.map { self.configuration.command(for: $0) })
            self.armTimer()
        }
    }

    /// Hands the requests to the link's owner, which takes them elsewhere; the machine is closed.
    private func divert(_ requests: [Request]) {
        let slots = self.machine.findings.slots ?? .null
        self.timer?.task.cancel()
        self.dropConnection()
        do throws(RedisError) {
            self.onEvent(.foundCluster(try SlotMap(slots, asked: self.address), requests))
        } catch {
            // A cluster that serves nothing yet: the nodes are asked again, beginning with this one.
            self.onEvent(.foundCluster(SlotMap(), requests))
        }
    }

    /// Returns the wait before the next attempt to connect: it doubles from 50 ms to 2 s, and half of it is random, so
    /// that a fleet that lost its server does not reconnect all at once.
    ///
    /// - Parameters:
    ///   - attempt: failures in a row, from 1.
    ///   - jitter: from 0 to 1, random for each attempt.
    static func pause(attempt: Int, jitter: Double) -> Duration {
        let whole = min(.milliseconds(50) * (1 << max(0, min(attempt - 1, 6))), Duration.seconds(2))
        return whole / 2 + (whole / 2) * max(0, min(jitter, 1))
    }

    private func replaceConnection(_ replacement: Machine.Replacement) {
        self.dropConnection()
        let delay = Self.pause(attempt: replacement.attempt, jitter: Double.random(in: 0...1))
        self.pause = self.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(delay)) {
            if self.machine.pauseEnded() { self.connect() }
        }
        self.onEvent(.lost(replacement.cause))
        for failure in replacement.failures { failure.request.fail(failure.error) }
    }

    /// Forgets the connection and closes it; anything it still receives is ignored.
    private func dropConnection() {
        self.handler?.release()
        self.handler = nil
        self.channel?.close(promise: nil)
        self.channel = nil
        self.outgoing.clear()
    }

    private func connectionError(_ error: any Error) -> RedisError {
        let address = self.address
        switch error {
        case ChannelError.eof, ChannelError.inputClosed, ChannelError.ioOnClosedChannel:
            return RedisError(.connection, "using the connection to \(address): closed by the server")
        case ChannelError.connectTimeout:
            return RedisError(.connection, "connecting to \(address): no answer in time")
        case let error as NIOConnectionError:
            let cause: any Error = error.connectionErrors.first?.error ?? error.dnsAError ?? error
            return RedisError(.connection, "connecting to \(address): \(cause)")
        default:
            return RedisError(.connection, "using the connection to \(address): \(error)")
        }
    }
}

// MARK: Writing and time

extension RedisLink {
    private func write(_ commands: [RedisCommand]) {
        for command in commands { self.outgoing.write(command) }
        guard !self.isFlushScheduled else { return }
        self.isFlushScheduled = true
        self.eventLoop.assumeIsolated().execute { self.flush() }
    }

    /// Writes all commands of a tick together. The buffer's storage is reused unless the socket still holds it.
    private func flush() {
        self.isFlushScheduled = false
        guard let channel, self.outgoing.readableBytes > 0 else { return }
        channel.writeAndFlush(self.outgoing, promise: nil)
        if self.outgoing.capacity > Self.keptBufferCapacity {
            self.outgoing = ByteBuffer()
        } else {
            self.outgoing.clear()
        }
    }

    /// Sets one timer for the earliest deadline. It is moved when an earlier deadline appears (that of a preparation),
    /// but not when its request is answered: when it fires, the deadlines are checked again.
    private func armTimer() {
        guard let deadline = self.machine.nextDeadline else { return }
        if let timer {
            guard deadline < timer.deadline else { return }
            timer.task.cancel()
        }
        let task = self.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) {
            self.timer = nil
            switch self.machine.hitDeadline(now: .now()) {
            case .fail(let failures): for failure in failures { failure.request.fail(failure.error) }
            case .replace(let replacement): self.replaceConnection(replacement)
            }
            self.armTimer()
        }
        self.timer = (deadline, task)
    }
}

extension RedisLink.Request {
    /// Ends the request.
    func succeed(_ answers: [RedisValue]) {
        switch self.completion {
        case .result(let completion): completion(.success(answers))
        case .closure(let completion): completion(.answers(answers))
        }
    }

    /// Ends the request without answers.
    func fail(_ error: RedisError) {
        switch self.completion {
        case .result(let completion): completion(.failure(error))
        case .closure(let completion): completion(.failed(error))
        }
    }
}

extension RedisConfiguration {
    /// Makes a handler that verifies the certificate against the host name, or against the address if the host is one:
    /// NIOSSL does the latter without a name, and a server name indication must not be an address (RFC 6066 §3).
    fileprivate func makeTLSHandler(_ context: NIOSSLContext, for host: String) throws -> NIOSSLClientHandler {
        let isAddress = (try? SocketAddress(ipAddress: host, port: 0)) != nil
        if isAddress { return try NIOSSLClientHandler(context: context, serverHostname: nil) }
        return try NIOSSLClientHandler._makeSSLClientHandler(context: context, serverHostname: host) {
            certificate, channel in
            // NIOSSL also accepts a certificate for the peer's address, which any server that a name resolves to may
            // have.
            let names = certificate._subjectAlternativeNames()
            if names.isEmpty || names.contains(where: { $0.nameType == .dnsName && isHost(host, named: $0.contents) }) {
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            let error = RedisError(.connection, "shaking hands: the server's certificate is not for \(host)")
            return channel.eventLoop.makeFailedFuture(error)
        }
    }
}
