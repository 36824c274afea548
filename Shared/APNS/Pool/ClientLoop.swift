import HTTP2
import NIOCore
import NIOPosix
import NIOSSL

/// The part of a client that lives on its event loop: the queue, the connection in use, the retired ones, the clock.
///
/// One connection takes requests; retired ones finish theirs. A pool replaces `current` by a choice.
final class ClientLoop {
    let endpoint: APNSEndpoint
    let credential: APNSCredential
    let configuration: APNSConfiguration
    private let proxy: APNSProxy?
    private let onReplies: @Sendable ([PushReply]) -> Void
    /// What has its outcome and is told at the end of the burst.
    private var replies: [PushReply] = []
    private let eventLoop: any EventLoop
    private let tls: NIOSSLContext
    private var queue: PushQueue<PendingPush>
    private var reconnect: ReconnectStateMachine
    private var current: PushConnectionHandler?
    private var retiredConnections: [PushConnectionHandler] = []
    private var lastFailure: APNSError?
    private var isTicking = false
    private var closing: [EventLoopPromise<Void>] = []
    private var closeDeadline: NIODeadline?
    private var generator = SystemRandomNumberGenerator()

    init(
        endpoint: APNSEndpoint, credential: APNSCredential, proxy: APNSProxy?, configuration: APNSConfiguration,
        tls: NIOSSLContext, eventLoop: any EventLoop, onReplies: @escaping @Sendable ([PushReply]) -> Void
    ) {
        self.endpoint = endpoint
        self.credential = credential
        self.configuration = configuration
        self.proxy = proxy
        self.onReplies = onReplies
        self.tls = tls
        self.eventLoop = eventLoop
        self.queue = PushQueue(
            limit: configuration.queueLimit, requestTimeout: configuration.requestTimeout,
            queueTimeout: configuration.queueTimeout)
        self.reconnect = ReconnectStateMachine(backoff: configuration.backoff)
    }

    // MARK: From the client's face

    func send(_ notifications: [PushNotification], _ continuation: CheckedContinuation<[PushOutcome], Never>) {
        let batch = PushBatch(count: notifications.count, continuation: continuation)
        let now = NIODeadline.now()
        for (index, notification) in notifications.enumerated() {
            self.accept(notification, number: UInt64(index), batch: batch, now: now)
        }
        self.accepted()
    }

    func submit(_ requests: [PushRequest]) {
        let now = NIODeadline.now()
        for request in requests { self.accept(request.notification, number: request.number, batch: nil, now: now) }
        self.accepted()
    }

    private func accept(_ notification: PushNotification, number: UInt64, batch: PushBatch?, now: NIODeadline) {
        let push = PendingPush(
            notification: notification, number: number, batch: batch,
            identifier: NotificationIdentifier(using: &self.generator))
        guard self.closeDeadline == nil else {
            let error = APNSError(.closed, "sending: the client is closed")
            return self.complete(push, .unanswered(error), started: nil, now: now)
        }
        if !self.queue.append(push, now: now) {
            let error = APNSError(.queueFull, "sending: \(self.queue.count) notifications wait")
            self.complete(push, .unanswered(error), started: nil, now: now)
        }
    }

    private func accepted() {
        self.perform(self.reconnect.wanted())
        self.current?.pump()
        self.tellReplies()
        self.keepTicking()
    }

    func snapshot(now: NIODeadline) -> APNSSnapshot {
        var snapshot = APNSSnapshot()
        let connections = self.retiredConnections + [self.current].compactMap(\.self)
        for connection in connections {
            snapshot.streamsInUse += connection.machine.openStreams
            switch connection.machine.phase {
            case .handshaking: snapshot.connections[.connecting, default: 0] += 1
            case .open:
                snapshot.connections[.open, default: 0] += 1
                snapshot.streamLimit += connection.machine.limit
            case .draining: snapshot.connections[.draining, default: 0] += 1
            case .closed: break
            }
        }
        if self.reconnect.state == .waiting { snapshot.connections[.backingOff] = 1 }
        snapshot.queued = self.queue.count
        snapshot.oldestQueued = self.queue.oldestAccepted.map { .nanoseconds((now - $0).nanoseconds) }
        snapshot.lastFailure = self.lastFailure
        return snapshot
    }

    /// The one place where a request gets its outcome.
    func complete(_ push: PendingPush, _ outcome: PushOutcome, started: NIODeadline?, now: NIODeadline) {
        if let batch = push.batch { return batch.complete(Int(clamping: push.number), outcome) }
        let elapsed = started.map { Duration.nanoseconds((now - $0).nanoseconds) }
        self.replies.append(PushReply(number: push.number, outcome: outcome, elapsed: elapsed))
    }

    /// The end of a burst: whoever completes requests calls this afterwards.
    func tellReplies() {
        guard !self.replies.isEmpty else { return }
        var told: [PushReply] = []
        swap(&told, &self.replies)
        self.replies.reserveCapacity(min(told.count, 1_024))
        self.onReplies(told)
    }

    func close(_ promise: EventLoopPromise<Void>) {
        self.closing.append(promise)
        if self.closeDeadline == nil { self.closeDeadline = .now() + self.configuration.closeTimeout }
        self.finishClosing(now: .now())
        self.keepTicking()
    }

    // MARK: From the connections

    func connected(_ connection: PushConnectionHandler) {
        guard connection === self.current else { return }
        self.reconnect.connected()
        self.lastFailure = nil
        self.report(.connected)
    }

    /// Starts what the connection has room for.
    func refill(_ connection: PushConnectionHandler) {
        guard connection === self.current, connection.machine.freeStreams > 0, !self.queue.isEmpty else { return }
        let now = NIODeadline.now()
        while connection.machine.freeStreams > 0, var entry = self.queue.next() {
            entry.started = entry.started ?? now
            if !connection.start(entry, now: now, deadline: self.queue.deadline(of: entry)) {
                self.queue.putBack(entry)
                self.retired(connection)
                return
            }
        }
    }

    /// A request was refused unprocessed.
    func putBack(_ entry: PushQueue<PendingPush>.Entry) {
        self.queue.putBack(entry)
        // When a retired connection gives it back, the one in use may have room; its own pump is already running
        // otherwise.
        self.current?.pump()
    }

    func answered(isHealthy: Bool, now: NIODeadline) {
        if isHealthy { self.reconnect.proven() }
        self.lastFailure = nil
        self.queue.progressed(now: now)
    }

    /// A connection takes no more requests; the next one is opened while it finishes.
    func retired(_ connection: PushConnectionHandler) {
        guard connection === self.current else { return }
        self.current = nil
        self.retiredConnections.append(connection)
        self.perform(self.reconnect.lost(jitter: self.jitter()))
    }

    func ended(_ connection: PushConnectionHandler, _ error: APNSError) {
        self.retiredConnections.removeAll { $0 === connection }
        if connection === self.current {
            self.current = nil
            self.failed(error)
        } else {
            self.lastFailure = error
        }
        self.finishClosing(now: .now())
    }

    func report(_ event: APNSEvent) { self.configuration.onEvent?(event) }

    // MARK: Connecting

    private func perform(_ action: ReconnectStateMachine.Action) {
        switch action {
        case .nothing: break
        case .connect: self.connect()
        case .wait(let delay):
            _ = self.eventLoop.assumeIsolated().scheduleTask(in: delay) {
                self.perform(self.reconnect.waited())
                self.keepTicking()
            }
        }
    }

    /// Resolves the name anew each time (Wallet Orders §4.5).
    private func connect() {
        let connection: PushConnectionHandler
        do {
            connection = try PushConnectionHandler(client: self, now: .now())
        } catch {
            return self.failed(APNSError(.connecting, "connecting to \(self.endpoint): \(error)"))
        }
        self.current = connection
        ClientBootstrap(group: self.eventLoop)
            .connectTimeout(self.configuration.connectTimeout)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.socketOption(.so_keepalive), value: 1)
            .connect(host: self.endpoint.host, port: self.endpoint.port)
            .assumeIsolated()
            .whenComplete { result in
                do {
                    // Several addresses may have been tried, each with a channel of its own: the handlers belong to
                    // the one that won.
                    let channel = try result.get()
                    try self.addHandlers(connection, to: channel)
                } catch {
                    self.ended(connection, APNSError(.connecting, "connecting to \(self.endpoint): \(error)"))
                }
            }
    }

    private func addHandlers(_ connection: PushConnectionHandler, to channel: any Channel) throws {
        // An address cannot stand in SNI; the certificate is then checked against the address itself.
        let isAddress = (try? SocketAddress(ipAddress: self.endpoint.host, port: 0)) != nil
        do {
            let transport = try NIOSSLClientHandler(
                context: self.tls, serverHostname: isAddress ? nil : self.endpoint.host)
            try channel.pipeline.syncOperations.addHandlers([transport, connection])
            // The channel may be closed already and then never says so to handlers added now.
            guard channel.isActive else { throw ChannelError.eof }
        } catch {
            channel.close(promise: nil)
            throw error
        }
    }

    private func failed(_ error: APNSError) {
        self.lastFailure = error
        self.report(.disconnected(error))
        self.perform(self.reconnect.lost(jitter: self.jitter()))
    }

    private func jitter() -> Double { Double.random(in: 0...1, using: &self.generator) }

    // MARK: The clock

    private var isIdle: Bool {
        self.queue.isEmpty && self.retiredConnections.isEmpty && self.closing.isEmpty
            && (self.current?.inFlight ?? 0) == 0 && self.reconnect.state != .connecting
    }

    private func keepTicking() {
        guard !self.isTicking, !self.isIdle else { return }
        self.isTicking = true
        _ = self.eventLoop.assumeIsolated().scheduleTask(in: self.configuration.tick) {
            self.isTicking = false
            self.tick(now: .now())
            self.keepTicking()
        }
    }

    private func tick(now: NIODeadline) {
        for entry in self.queue.takeExpired(now: now) {
            let error =
                self.lastFailure ?? APNSError(.notStarted, "waiting for a free stream: none within the deadline")
            self.complete(entry.element, .unanswered(error), started: entry.started, now: now)
        }
        self.current?.tick(now: now)
        for connection in self.retiredConnections { connection.tick(now: now) }
        // Time-outs may have retired the connection in use.
        if let current = self.current, case .draining = current.machine.phase { self.retired(current) }
        self.finishClosing(now: now)
        self.tellReplies()
    }

    // MARK: Closing

    private func finishClosing(now: NIODeadline) {
        guard let closeDeadline = self.closeDeadline, !self.closing.isEmpty else { return }
        let isDone =
            self.queue.isEmpty && (self.current?.inFlight ?? 0) == 0
            && self.retiredConnections.allSatisfy { $0.inFlight == 0 }
        guard isDone || closeDeadline <= now else { return }
        self.reconnect.stop()
        let error = APNSError(.closed, "waiting for answers: the client was closed")
        for entry in self.queue.takeAll() {
            self.complete(entry.element, .unanswered(error), started: entry.started, now: now)
        }
        self.tellReplies()
        let connections = self.retiredConnections + [self.current].compactMap(\.self)
        if connections.isEmpty {
            let promises = self.closing
            self.closing.removeAll()
            for promise in promises { promise.succeed() }
            return
        }
        // Each tells when it has ended, which comes back here.
        for connection in connections { connection.close(error) }
    }
}
