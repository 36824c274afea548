import NIOCore
import NIOHTTP2

/// The state shared by the streams of an HTTP/2 connection: limits, time, and the end.
///
/// A connection that must end announces it, and answers whatever the client sent before it knew. Only an error of the
/// connection, for which the library has sent GOAWAY, ends it at once; an error of a stream ends that stream.
/// Source: RFC 9113 §5.4, §6.8
final class HTTP2ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    /// The stages of the end.
    private enum Stage {
        case open
        /// The client is told that there will be a last stream, and asked to confirm that it knows.
        case announced
        /// The client knows the last stream. The connection closes when no stream is left.
        case named
        /// The last answers are on their way to the client.
        case closing
    }

    private let limits: HTTP2Limits
    private let slot: ConnectionSlot
    /// The size that a GET counts as until its answer exists.
    private let estimate: Int
    private var streams: [ObjectIdentifier: HTTP2StreamHandler] = [:]
    /// The time since which there is no stream, or since which the connection must end.
    private var quietSince = NIODeadline.now()
    private var stage = Stage.open
    private let goAway: GoAwayHandler
    private var context: ChannelHandlerContext?
    /// True if the connection gives way to others, so that requests which have not arrived yet are abandoned.
    private var isGivingWay = false
    private var timer: Scheduled<Void>?
    private var dates = DateLine()
    /// Streams whose requests wait until answers have been read; at most the number of allowed streams.
    private var waiting: [HTTP2StreamHandler] = []
    /// Requests that arrived and whose streams still exist.
    private var requests = 0

    /// Bytes of bodies whose requests are not being processed yet.
    var bodyBytes = 0
    /// Bytes of answers that the client has not read yet, and estimates of those that are being made.
    var unwritten = 0

    private init(limits: HTTP2Limits, slot: ConnectionSlot, peer: Peer, goAway: GoAwayHandler) {
        self.limits = limits
        self.slot = slot
        self.goAway = goAway
        // A proxy carries many clients, and one that waits for its package must not keep the others waiting.
        self.estimate = peer.isTrusted ? 0 : limits.estimate
    }

    /// Sets up the pipeline of a connection that negotiated HTTP/2.
    static func add(
        to channel: any Channel, slot: ConnectionSlot, endpoints: any Responder, peer: Peer, limits: HTTP2Limits
    ) throws {
        let goAway = GoAwayHandler()
        let connection = HTTP2ConnectionHandler(limits: limits, slot: slot, peer: peer, goAway: goAway)
        let bound = NIOLoopBound(connection, eventLoop: channel.eventLoop)
        let frames = NIOHTTP2Handler(
            mode: .server, eventLoop: channel.eventLoop, connectionConfiguration: limits.connection,
            streamConfiguration: limits.stream,
            streamDelegate: Streams(goAway: .init(goAway, eventLoop: channel.eventLoop))
        ) { stream in
            stream.eventLoop.makeCompletedFuture {
                let handler = HTTP2StreamHandler(connection: bound.value, endpoints: endpoints, peer: peer)
                try stream.pipeline.syncOperations.addHandler(handler)
            }
        }
        try channel.pipeline.syncOperations.addHandlers([goAway, frames, connection])
    }

    /// Notes the last stream.
    private struct Streams: NIOHTTP2StreamDelegate {
        let goAway: NIOLoopBound<GoAwayHandler>

        func streamCreated(_ id: HTTP2StreamID, channel: any Channel) { self.goAway.value.lastStream = id }
        func streamClosed(_ id: HTTP2StreamID, channel: any Channel) {}
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        self.arm(context)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.timer?.cancel()
        self.waiting = []
        self.context = nil
    }

    /// Receives frames of the connection itself, which a preceding handler has processed.
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .ping(GoAwayHandler.ping, ack: true) = self.unwrapInboundIn(data).payload else { return }
        self.nameLastStream(context)
    }

    // MARK: For the streams

    /// The text of the `Date` header.
    var date: String { self.dates.text() }

    /// True if the bodies of requests that are not being processed yet take too many bytes.
    var hasTooManyBodies: Bool { self.bodyBytes > self.limits.bodies }

    func opened(_ stream: HTTP2StreamHandler) {
        self.streams[ObjectIdentifier(stream)] = stream
        // A connection whose requests only ever begin is idle as well.
        if self.streams.count == 1 { self.slot.ended(at: .now()) }
    }

    func closed(_ stream: HTTP2StreamHandler) {
        self.streams[ObjectIdentifier(stream)] = nil
        guard let context = self.context else { return }
        switch self.stage {
        case .open:
            if self.streams.isEmpty { self.quietSince = .now() }
            if self.slot.isDraining { self.announceEnd(context) }
        case .named: self.closeIfDone(context)
        case .announced, .closing: break
        }
    }

    /// Notes that a stream's request has arrived. It is processed now, or when the client has read enough answers.
    func arrived(_ stream: HTTP2StreamHandler) {
        self.requests += 1
        if self.requests == 1 { self.slot.began() }
        self.waiting.append(stream)
        self.goOn()
    }

    /// Notes that a stream whose request had arrived has ended, possibly without an answer.
    func ended(_ stream: HTTP2StreamHandler) {
        self.requests -= 1
        if self.requests == 0 { self.slot.ended(at: .now()) }
        self.waiting.removeAll { $0 === stream }
        self.goOn()
    }

    /// Resumes waiting requests.
    func goOn() {
        while self.unwritten < self.limits.unwritten, !self.waiting.isEmpty {
            self.waiting.removeFirst().work(reserving: self.estimate)
        }
    }

    // MARK: Time and the end

    /// Arms the timer for all streams. It fires four times per limit, or more often when the end is near.
    private func arm(_ context: ChannelHandlerContext) {
        let isOpen = if case .open = self.stage { true } else { false }
        let wait = isOpen ? min(self.limits.requestLimit, self.limits.arrivalLimit) : self.limits.lingering
        let part = TimeAmount.nanoseconds(max(wait.nanoseconds / 4, 1_000_000))
        self.timer = context.eventLoop.assumeIsolated().scheduleTask(in: part) {
            let now = NIODeadline.now()
            for stream in Array(self.streams.values) { stream.look(now, self.limits) }
            let quiet = now - self.quietSince
            switch self.stage {
            case .open: if self.streams.isEmpty, quiet >= self.limits.requestLimit { self.announceEnd(context) }
            // A client that does not confirm is told nevertheless.
            case .announced: if quiet >= self.limits.lingering { self.nameLastStream(context) }
            case .named: self.closeIfDone(context)
            case .closing: if quiet >= self.limits.answerLimit { return context.close(promise: nil) }
            }
            self.arm(context)
        }
    }

    /// Tells the client that the connection ends. Streams that it opens before it knows are answered.
    private func announceEnd(_ context: ChannelHandlerContext) {
        guard case .open = self.stage else { return }
        self.stage = .announced
        self.quietSince = .now()
        self.goAway.announce()
        self.timer?.cancel()
        self.arm(context)
    }

    /// Tells the client which stream is the last.
    private func nameLastStream(_ context: ChannelHandlerContext) {
        guard case .announced = self.stage else { return }
        self.stage = .named
        let last = HTTP2Frame.FramePayload.goAway(
            lastStreamID: self.goAway.lastStream, errorCode: .noError, opaqueData: nil)
        context.writeAndFlush(self.wrapOutboundOut(HTTP2Frame(streamID: .rootStream, payload: last)), promise: nil)
        self.closeIfDone(context)
    }

    /// Closes the connection after its last answer, once that has been sent.
    private func closeIfDone(_ context: ChannelHandlerContext) {
        guard case .named = self.stage, self.streams.isEmpty || self.isGivingWay && self.requests == 0 else { return }
        self.stage = .closing
        self.quietSince = .now()
        self.goAway.sent().assumeIsolated().whenComplete { _ in context.close(promise: nil) }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case is ConnectionSlot.GiveWay:
            guard self.slot.isGivingWay else { return }
            self.isGivingWay = true
            self.announceEnd(context)
        case is ConnectionSlot.Drain, is ChannelShouldQuiesceEvent: self.announceEnd(context)
        default: context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        // The library could not send GOAWAY for an error of the connection, since the client knows a lower last stream.
        case is NIOHTTP2Errors.RaisedGoawayLastStreamID: context.close(promise: nil)
        // The library has reset the stream that the error concerns.
        case is any NIOHTTP2Error where !self.goAway.isForError: break
        default: context.close(promise: nil)
        }
    }
}
