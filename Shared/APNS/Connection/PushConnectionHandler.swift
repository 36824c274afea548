import HTTP2
import Model
import NIOCore
import NIOTLS

/// Drives one HTTP/2 session over TLS: bytes between channel and session, requests from the client, outcomes to it.
///
/// Lives on the client's event loop. `ConnectionStateMachine` decides what it may do; `EventLoopClient.run`, which the
/// channel's callbacks call last, decides when.
final class PushConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The connection's number in the pool.
    let id: Int
    private(set) var machine: ConnectionStateMachine
    /// The address that it connects to; nil until it is chosen.
    var address: SocketAddress?
    /// The channel; nil until there is one. This handler may not be in its pipeline yet.
    var channel: (any Channel)?
    /// True if `turn` may have something to write or to process.
    private(set) var isDirty = false
    private let session: HTTP2ClientSession
    private let credential: APNSCredential
    private var block: PushRequestBlock
    private var flights = InFlightRequests()
    private var events: [HTTP2Event] = []
    private var outgoing = ByteBuffer()
    private var tokenVersion = 0
    /// The number of requests started since the last write.
    private var unwritten = 0
    private var lastStarted: UInt64 = 0
    private var isWritable = true
    private var hasToldRetirement = false
    private var pings: UInt64 = 0
    private var refused = 0
    /// The reason for closing the connection; nil until there is one.
    private var failure: APNSError?
    /// The content of GOAWAY; the connection may stay open for a while.
    private var farewell: APNSError?
    /// True if GOAWAY reported an error of ours.
    private(set) var isFaulted = false
    private var context: ChannelHandlerContext?
    /// The client retains its connections and they retain the client, until `end` breaks the cycle.
    private var client: EventLoopClient?

    /// The number of unwritten requests that triggers a write, so that APNs works while the rest is prepared.
    private static let mostUnwritten = 25
    /// The number of received bytes processed in one piece, and of events in it after which the next requests start.
    private static let pieceBytes = 1_024
    private static let endsToGoOn = 10

    init(id: Int, client: EventLoopClient, now: NIODeadline) throws(HTTP2Error) {
        self.id = id
        self.client = client
        self.credential = client.credential
        self.session = try HTTP2ClientSession(keptHeaders: ["apns-id", "retry-after"])
        let hasToken = if case .token = client.credential { true } else { false }
        self.machine = ConnectionStateMachine(isProven: !hasToken, configuration: client.configuration, now: now)
        self.block = PushRequestBlock(authority: client.endpoint.authority, hasToken: hasToken)
    }

    /// True if the client still waits for this connection to be established, or uses it.
    var isWanted: Bool { self.client != nil }
    /// The number of requests with an open stream; those that timed out count until their streams end.
    var inFlight: Int { self.flights.count }

    var load: ConnectionLoad {
        ConnectionLoad(
            id: self.id, openStreams: self.machine.openStreams, limit: self.machine.limit,
            freeStreams: self.isWritable ? self.machine.freeStreams : 0, lastStarted: self.lastStarted,
            failureShare: self.machine.failureShare, failingSince: self.machine.failingSince,
            lastGoodAnswer: self.machine.lastGoodAnswer)
    }

    // MARK: From the client

    /// Starts a request, or completes it with an error if there is no provider token. The caller, `run`, has checked
    /// that a stream is free.
    ///
    /// - Parameter order: grows with each request of the client.
    /// - Returns: false if the connection accepts no more requests; the entry remains the caller's.
    func start(_ entry: PushQueue<PendingPush>.Entry, order: UInt64, now: NIODeadline, deadline: NIODeadline) -> Bool {
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
            if self.machine.started(stream: stream, now: now) { self.ping() }
            self.flights.insert(InFlightRequests.Flight(entry: entry, stream: stream, deadline: deadline))
            self.lastStarted = order
            self.isDirty = true
            self.unwritten += 1
            if self.unwritten >= Self.mostUnwritten { self.write() }
            return true
        } catch {
            self.machine.retire(.streamIdentifiers, now: now)
            self.isDirty = true
            return false
        }
    }

    /// Writes all bytes that can be sent and processes the events that follow: one step of `EventLoopClient.run`.
    func turn(now: NIODeadline) {
        self.isDirty = false
        if self.isWritable, self.machine.phase != .handshaking { self.write() }
        self.handleEvents(now: now)
        if self.machine.isDraining, !self.hasToldRetirement {
            self.hasToldRetirement = true
            self.client?.retired(self)
        }
        guard let context = self.context else { return }
        if self.session.isFinished, !self.machine.isDrained, self.farewell == nil {
            self.failure = self.failure ?? APNSError(.protocolViolation, "waiting for answers: APNs broke HTTP/2")
        }
        if self.failure != nil || self.session.isFinished {
            self.abandon(context)
        } else if self.machine.isDrained {
            context.close(promise: nil)
        }
    }

    /// Checks the deadlines of requests and the liveness of the peer. The caller calls `run` afterwards.
    func tick(now: NIODeadline) {
        for flight in self.flights.abandonExpired(now: now) {
            // Fails only if memory is exhausted; the stream then ends with the connection.
            try? self.session.reset(flight.stream, .cancel)
            let isSilent = flight.entry.started.map { self.machine.lastReceived <= $0 } ?? false
            let error = APNSError(
                isSilent ? .silent : .timeout, "waiting for an answer: none within the request's deadline")
            self.client?.failed(flight.entry.element, on: self)
            self.complete(flight.entry, .unanswered(error), now: now)
            self.machine.timedOut(now: now)
            self.isDirty = true
        }
        switch self.machine.tick(now: now) {
        case .nothing: break
        case .ping: self.ping()
        case .close(let error):
            self.close(error)
            // TLS waits for the peer's close_notify, which may never arrive; the client does not wait for it.
            self.end()
        }
    }

    /// Sends a PING if this connection is idle, because another failed by silence. The caller calls `run` afterwards.
    func doubt(now: NIODeadline) { if self.machine.doubted(now: now) { self.ping() } }

    private func ping() {
        self.pings &+= 1
        // Fails only if memory is exhausted; the missing answer then closes the connection.
        try? self.session.ping(self.pings)
        self.isDirty = true
    }

    /// Stops new requests; the open streams may still be answered. The caller calls `run` afterwards.
    func retire(_ reason: APNSEvent.Replacement?, now: NIODeadline) {
        self.machine.retire(reason, now: now)
        self.isDirty = true
    }

    /// Sends GOAWAY and closes the connection.
    func close(_ error: APNSError) {
        guard let context = self.context else { return self.fail(error) }
        self.failure = self.failure ?? error
        if self.machine.phase != .handshaking {
            try? self.session.terminate()  // The connection ends with or without the frame.
            self.write()
        }
        context.close(promise: nil)
    }

    /// Ends an attempt to connect that has failed or is abandoned.
    func fail(_ error: APNSError) {
        self.failure = self.failure ?? error
        self.channel?.close(promise: nil)
        self.end()
    }

    // MARK: From the channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        self.isWritable = context.channel.isWritable
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.end() }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted(let protocolName)? = event as? TLSUserEvent {
            guard protocolName == "h2" else {
                return self.close(APNSError(.tls, "shaking hands: the server does not offer HTTP/2"))
            }
            self.machine.handshakeCompleted(now: .now())
            self.client?.connected(self)
            self.run()
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.machine.received(now: .now())
        // Piece by piece, so that the next requests leave before the last answer is read: the server works meanwhile.
        var bytes = self.unwrapInboundIn(data)
        while self.failure == nil, self.client != nil,
            let piece = bytes.readSlice(length: min(bytes.readableBytes, Self.pieceBytes)), piece.readableBytes > 0
        {
            do throws(HTTP2Error) {
                try self.session.receive(piece)
            } catch {
                self.failure = APNSError(.protocolViolation, error.message)
            }
            if self.session.eventCount >= Self.endsToGoOn, self.machine.phase != .handshaking {
                self.run(isAmidBurst: true)
            }
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        // Also called during the TLS handshake.
        if self.machine.phase != .handshaking { self.run() }
        context.fireChannelReadComplete()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.isWritable = context.channel.isWritable
        if self.isWritable { self.run() }
        context.fireChannelWritabilityChanged()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        let wasOpen = self.machine.phase != .handshaking
        // A drained connection may end without TLS's close_notify.
        if !self.machine.isDrained { self.failure = self.failure ?? describeTransportError(error, wasOpen: wasOpen) }
        self.abandon(context)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.end()
        context.fireChannelInactive()
    }

    // MARK: Internals

    private func run(isAmidBurst: Bool = false) {
        self.isDirty = true
        // Answers first: they free streams, which the client then uses.
        self.handleEvents(now: .now())
        self.client?.run(isAmidBurst: isAmidBurst)
    }

    private func complete(_ entry: PushQueue<PendingPush>.Entry, _ outcome: PushOutcome, now: NIODeadline) {
        self.client?.complete(entry.element, outcome, started: entry.started, now: now)
    }

    /// Closes the connection without waiting for the close to finish.
    private func abandon(_ context: ChannelHandlerContext) {
        context.close(promise: nil)
        self.end()
    }

    /// Ends the connection: requests already answered keep their answers, the others complete as unanswered.
    private func end() {
        guard let client = self.client else { return }
        let now = NIODeadline.now()
        self.handleEvents(now: now)
        let isExpected = self.machine.isDrained
        let wasOpen = self.machine.phase != .handshaking
        self.client = nil
        self.context = nil
        self.channel = nil
        self.machine.closed()
        let error =
            self.failure ?? self.farewell
            ?? (wasOpen
                ? APNSError(.connectionLost, "waiting for answers: APNs closed the connection")
                : APNSError(.connecting, "shaking hands: the server closed the connection"))
        // APNs has processed nothing with a refused certificate, and never will.
        let lost = error.code == .credential ? error : APNSError(.connectionLost, error.message)
        for flight in self.flights.takeAll() {
            client.complete(flight.entry.element, .unanswered(lost), started: flight.entry.started, now: now)
        }
        client.ended(self, isExpected && self.failure == nil ? nil : error)
    }

    private func write() {
        guard let context = self.context else { return }
        self.unwritten = 0
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
            self.isDirty = true
            for event in self.events { self.handle(event, now: now) }
        }
        if self.refused > 0 {
            self.client?.report(.refusedStreams(self.refused))
            self.refused = 0
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
            self.isFaulted = self.isFaulted || code != .noError
            self.machine.retire(.goAway, now: now)
            self.client?.report(.goAway(reason: reason, code: code.description))
        case .pingAcknowledged(let number):
            guard number == self.pings, let roundTrip = self.machine.pingAcknowledged(now: now) else { return }
            self.client?.report(.pingRoundTrip(.nanoseconds(roundTrip.nanoseconds)))
        }
    }

    private func streamEnded(_ end: HTTP2StreamEnd, now: NIODeadline) {
        let flight = self.flights.remove(end.tag)
        if flight?.isAbandoned == true, !end.isComplete { return self.machine.endedUnanswered() }
        let answer = PushAnswer(end)
        let result = self.machine.ended(end, isForeign: answer?.isForeign ?? false, now: now)
        guard let flight, !flight.isAbandoned else { return }
        switch result {
        case .again:
            self.refused += 1
            self.client?.putBack(flight.entry)
        case .failed(let error):
            self.client?.failed(flight.entry.element, on: self)
            self.complete(flight.entry, .unanswered(error), now: now)
        case .answered:
            guard let answer else { return }
            self.complete(flight.entry, .answered(answer), now: now)
            let isHealthy = answer.status == 200 || self.judge(answer, to: flight.entry.element, now: now)
            self.client?.answered(answer, self, isHealthy: isHealthy, now: now)
        }
    }

    /// Judges the connection by an answer.
    ///
    /// - Returns: true if the connection is healthy.
    private func judge(_ answer: PushAnswer, to push: PendingPush, now: NIODeadline) -> Bool {
        if answer.status == 429 {
            let isOneDevice = answer.reason == PushReason.tooManyRequests.rawValue
            self.machine.throttled(isOneDevice: isOneDevice, now: now)
            return isOneDevice
        }
        let isFailure = answer.status >= 500 || answer.status == 403 || answer.isForeign
        if isFailure { self.client?.failed(push, on: self) }
        guard let replacement = replacementAsked(by: answer) else { return !isFailure }
        if replacement == .providerToken {
            if answer.reason == PushReason.expiredProviderToken.rawValue, case .token(let source) = self.credential {
                source.expired(version: self.tokenVersion)
            }
            self.machine.tokenRefused(now: now)
        } else {
            self.machine.retire(replacement, now: now)
        }
        if replacement == .credential { self.client?.credentialRefused(now: now) }
        return false
    }
}

/// Returns the reason to replace the connection of an answer; nil if it can still be used.
///
/// Source: Wallet Orders §4.6
func replacementAsked(by answer: PushAnswer) -> APNSEvent.Replacement? {
    switch answer.reason.flatMap(PushReason.init(named:)) {
    case .idleTimeout, .shutdown: .answer
    case .expiredProviderToken, .unrelatedKeyIDInToken: .providerToken
    case .badCertificate, .badCertificateEnvironment: .credential
    default: nil
    }
}

/// The requests of one connection whose streams are open, by the tag that the session returns.
struct InFlightRequests {
    /// One open stream.
    struct Flight {
        let entry: PushQueue<PendingPush>.Entry
        let stream: Int32
        let deadline: NIODeadline
        /// True if the request timed out and has its outcome, so that only the end of its stream is awaited.
        var isAbandoned = false
    }

    private var flights: [Flight?] = []
    private var free: [Int] = []
    private(set) var count = 0

    /// The tag that the next `insert` uses.
    var nextTag: Int { self.free.last ?? self.flights.count }

    mutating func insert(_ flight: Flight) {
        self.count += 1
        if let tag = self.free.popLast() { self.flights[tag] = flight } else { self.flights.append(flight) }
    }

    mutating func remove(_ tag: Int) -> Flight? {
        guard self.flights.indices.contains(tag), let flight = self.flights[tag] else { return nil }
        self.flights[tag] = nil
        self.free.append(tag)
        self.count -= 1
        return flight
    }

    /// Marks requests past their deadline as abandoned, and returns each of them once.
    mutating func abandonExpired(now: NIODeadline) -> [Flight] {
        guard self.count > 0 else { return [] }
        var expired: [Flight] = []
        for tag in self.flights.indices {
            guard let flight = self.flights[tag], !flight.isAbandoned, flight.deadline <= now else { continue }
            expired.append(flight)
            self.flights[tag]?.isAbandoned = true
        }
        return expired
    }

    /// Empties the table and returns its requests, without the abandoned ones, which have their outcome.
    mutating func takeAll() -> [Flight] {
        defer {
            self.flights.removeAll()
            self.free.removeAll()
            self.count = 0
        }

        return self.flights.compactMap { $0 }.filter { !$0.isAbandoned }
    }
}
