import HTTP2
import Model
import NIOCore
import NIOSSL
import NIOTLS

/// Drives one HTTP/2 session behind TLS: bytes between channel and session, requests from the client, outcomes back.
///
/// Lives on the client's event loop. What it may do is decided by `ConnectionStateMachine`.
final class PushConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    var machine: ConnectionStateMachine
    private let session: HTTP2ClientSession
    private let credential: APNSCredential
    private var block: PushRequestBlock
    private var flights = FlightTable()
    private var events: [HTTP2Event] = []
    private var outgoing = ByteBuffer()
    private var tokenVersion = 0
    private var isPumping = false
    /// Why the connection is to be closed, once it is.
    private var failure: APNSError?
    /// What GOAWAY said; the connection may live on for a while.
    private var farewell: APNSError?
    private var context: ChannelHandlerContext?
    /// The client keeps its connections and they keep the client, until `channelInactive` cuts this.
    private var client: ClientLoop?

    init(client: ClientLoop, now: NIODeadline) throws(HTTP2Error) {
        self.client = client
        self.credential = client.credential
        self.session = try HTTP2ClientSession(keptHeaders: ["apns-id", "retry-after"])
        let hasToken = if case .token = client.credential { true } else { false }
        self.machine = ConnectionStateMachine(isProven: !hasToken, configuration: client.configuration, now: now)
        self.block = PushRequestBlock(authority: client.endpoint.authority, hasToken: hasToken)
    }

    /// How many requests wait for an answer here.
    var inFlight: Int { self.flights.count }

    // MARK: From the client

    /// Starts a request. The caller has seen that a stream is free, and pumps afterwards.
    ///
    /// - Returns: false when the connection takes no more requests; the entry is still the caller's.
    func start(_ entry: PushQueue<PendingPush>.Entry, now: NIODeadline, deadline: NIODeadline) -> Bool {
        var authorization: [UInt8] = []
        if case .token(let source) = self.credential {
            do throws(APNSError) {
                let token = try source.authorization()
                authorization = token.value
                self.tokenVersion = token.version
            } catch {
                self.client?.complete(entry.element, .unanswered(error), started: nil, now: now)
                return true
            }
        }
        do throws(HTTP2Error) {
            let stream = try self.block.with(entry.element, authorization: authorization) {
                block throws(HTTP2Error) in
                try self.session.submit(block, body: entry.element.notification.payload, tag: self.flights.nextTag)
            }
            self.block.submitted(entry.element)
            self.machine.started(now: now)
            self.flights.insert(FlightTable.Flight(entry: entry, stream: stream, deadline: deadline))
            return true
        } catch {
            self.machine.retire(now: now)
            return false
        }
    }

    /// Handles what came, starts what can be started, sends all of it in one piece; until nothing happens any more.
    func pump() {
        // Outcomes and starts come back here through the client; the outer call does their work.
        guard !self.isPumping, let context = self.context, let client = self.client else { return }
        self.isPumping = true
        self.turn(context, client)
        self.isPumping = false
        client.tellReplies()
    }

    private func turn(_ context: ChannelHandlerContext, _ client: ClientLoop) {
        repeat {
            self.handleEvents(now: .now())
            guard self.machine.phase != .handshaking else { return }
            guard context.channel.isWritable else { break }
            client.refill(self)
            self.flush(context)
        } while self.session.hasEvents
        if self.session.isFinished, !self.machine.isDrained, self.farewell == nil {
            self.failure = self.failure ?? APNSError(.protocolViolation, "waiting for answers: APNs broke HTTP/2")
        }
        if self.failure != nil || self.machine.isDrained || self.session.isFinished { context.close(promise: nil) }
    }

    /// Looks at the clock: deadlines of requests, signs of life.
    func tick(now: NIODeadline) {
        for flight in self.flights.abandonExpired(now: now) {
            // Fails only without memory; the stream then ends with the connection.
            try? self.session.reset(flight.stream, .cancel)
            let isSilent = flight.entry.started.map { self.machine.lastReceived <= $0 } ?? false
            let error = APNSError(
                isSilent ? .silent : .timeout, "waiting for an answer: none within the request's deadline")
            self.complete(flight.entry, .unanswered(error), now: now)
            self.machine.timedOut(now: now)
        }
        switch self.machine.tick(now: now) {
        case .nothing: break
        // Fails only without memory; the missing answer then closes the connection.
        case .ping: try? self.session.ping(0)
        case .close(let error): self.close(error)
        }
        self.pump()
    }

    /// Takes no new requests; the open streams may still be answered. The caller pumps or closes.
    func retire(now: NIODeadline) { self.machine.retire(now: now) }

    /// Says GOAWAY and closes.
    func close(_ error: APNSError?) {
        if self.failure == nil { self.failure = error }
        guard let context = self.context else { return }
        if self.machine.phase != .handshaking {
            try? self.session.terminate()  // The connection goes away with or without the frame.
            self.flush(context)
        }
        context.close(promise: nil)
    }

    // MARK: From the channel

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.end() }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted(let protocolName)? = event as? TLSUserEvent {
            guard protocolName == "h2" else {
                return self.close(APNSError(.tls, "shaking hands: the server does not offer HTTP/2"))
            }
            self.machine.handshakeCompleted(now: .now())
            self.client?.connected(self)
            self.pump()
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.machine.received(now: .now())
        do throws(HTTP2Error) {
            try self.session.receive(self.unwrapInboundIn(data))
        } catch {
            self.failure = self.failure ?? APNSError(.protocolViolation, error.message)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        // Also arrives while TLS shakes hands; `pump` does nothing then.
        self.pump()
        context.fireChannelReadComplete()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { self.pump() }
        context.fireChannelWritabilityChanged()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        let wasOpen = self.machine.phase != .handshaking
        self.failure = self.failure ?? describeTransportError(error, wasOpen: wasOpen)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.end()
        context.fireChannelInactive()
    }

    // MARK: Internals

    private func complete(_ entry: PushQueue<PendingPush>.Entry, _ outcome: PushOutcome, now: NIODeadline) {
        self.client?.complete(entry.element, outcome, started: entry.started, now: now)
    }

    /// The connection is gone: what was answered is answered, the rest has no answer.
    private func end() {
        guard let client = self.client else { return }
        let now = NIODeadline.now()
        self.handleEvents(now: now)
        self.client = nil
        self.context = nil
        let wasOpen = self.machine.phase != .handshaking
        self.machine.closed()
        let error =
            self.failure ?? self.farewell
            ?? (wasOpen
                ? APNSError(.connectionLost, "waiting for answers: APNs closed the connection")
                : APNSError(.connecting, "shaking hands: the server closed the connection"))
        let lost = APNSError(.connectionLost, error.message)
        for flight in self.flights.takeAll() {
            client.complete(flight.entry.element, .unanswered(lost), started: flight.entry.started, now: now)
        }
        client.tellReplies()
        client.ended(self, error)
    }

    private func flush(_ context: ChannelHandlerContext) {
        self.outgoing.clear()
        do throws(HTTP2Error) {
            try self.session.write(into: &self.outgoing)
        } catch {
            self.failure = self.failure ?? APNSError(.protocolViolation, error.message)
        }
        if self.outgoing.readableBytes > 0 {
            context.writeAndFlush(self.wrapOutboundOut(self.outgoing), promise: nil)
        }
    }

    private func handleEvents(now: NIODeadline) {
        while self.session.hasEvents {
            self.session.takeEvents(into: &self.events)
            for event in self.events { self.handle(event, now: now) }
        }
    }

    private func handle(_ event: HTTP2Event, now: NIODeadline) {
        switch event {
        case .streamEnded(let end):
            self.streamEnded(end, now: now)
        case .settings(let maxConcurrentStreams):
            self.machine.settings(maxConcurrentStreams: maxConcurrentStreams)
            self.client?.report(.streamLimit(self.machine.limit))
        case .goAway(_, let code, let debugData):
            let reason = (try? JSON(parsing: debugData))?.object?["reason"]?.string.map { String($0.prefix(64)) }
            self.farewell = APNSError(.connectionLost, "GOAWAY: \(reason ?? code.description)")
            self.machine.retire(now: now)
            self.client?.report(.goAway(reason: reason, code: code.description))
            self.client?.retired(self)
        case .pingAcknowledged:
            break
        }
    }

    private func streamEnded(_ end: HTTP2StreamEnd, now: NIODeadline) {
        let result = self.machine.ended(end)
        guard let flight = self.flights.remove(end.tag), !flight.isAbandoned else { return }
        switch result {
        case .again:
            self.client?.putBack(flight.entry)
        case .failed(let error):
            self.complete(flight.entry, .unanswered(error), now: now)
        case .answered(let status):
            let answer = PushAnswer(status: status, headers: end.headers, body: end.body)
            self.complete(flight.entry, .answered(answer), now: now)
            let isReplaced = asksForNewConnection(answer)
            if isReplaced {
                if answer.reason == PushReason.expiredProviderToken.rawValue, case .token(let source) = self.credential
                {
                    source.expired(version: self.tokenVersion)
                }
                self.machine.retire(now: now)
                self.client?.retired(self)
            }
            self.client?.answered(isHealthy: !isReplaced, now: now)
        }
    }
}

/// Whether an answer says that its connection is of no more use.
///
/// Source: Wallet Orders §4.6
func asksForNewConnection(_ answer: PushAnswer) -> Bool {
    switch answer.reason.flatMap(PushReason.init) {
    case .idleTimeout, .shutdown, .expiredProviderToken, .unrelatedKeyIDInToken: true
    default: false
    }
}

private func describeTransportError(_ error: any Error, wasOpen: Bool) -> APNSError {
    switch error {
    case NIOSSLError.uncleanShutdown:
        return APNSError(.connectionLost, "waiting for answers: the connection was cut")
    case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError:
        let text = "\(error)"
        let isUntrusted = text.contains("CERTIFICATE_VERIFY_FAILED")
        let reason = isUntrusted ? "the server's certificate does not come from a trusted root" : text
        return APNSError(.tls, "\(wasOpen ? "talking TLS" : "shaking hands"): \(reason)")
    default:
        return APNSError(wasOpen ? .connectionLost : .connecting, "talking to APNs: \(error)")
    }
}
