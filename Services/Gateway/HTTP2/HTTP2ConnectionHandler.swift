import NIOCore
import NIOHTTP2

/// The state shared by the streams of an HTTP/2 connection: limits, time, and the end.
///
/// `NIOHTTP2ServerConnectionManagementHandler` precedes it and sends GOAWAY when the connection must end.
final class HTTP2ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame

    private let limits: HTTP2Limits
    private let slot: ConnectionSlot
    /// The size that a GET counts as until its answer exists.
    private let estimate: Int
    private var streams: [ObjectIdentifier: HTTP2StreamHandler] = [:]
    /// The time since which there is no stream, or since which the connection must end.
    private var quietSince = NIODeadline.now()
    private var isStopping = false
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

    init(limits: HTTP2Limits, slot: ConnectionSlot, peer: Peer) {
        self.limits = limits
        self.slot = slot
        // A proxy carries many clients, and one that waits for its package must not keep the others waiting.
        self.estimate = peer.isTrusted ? 0 : limits.estimate
    }

    /// Sets up the pipeline of a connection that negotiated HTTP/2.
    static func add(
        to channel: any Channel, slot: ConnectionSlot, endpoints: any Responder, peer: Peer, limits: HTTP2Limits
    ) throws {
        let connection = HTTP2ConnectionHandler(limits: limits, slot: slot, peer: peer)
        let bound = NIOLoopBound(connection, eventLoop: channel.eventLoop)
        let management = NIOHTTP2ServerConnectionManagementHandler(
            eventLoop: channel.eventLoop,
            configuration: .init(maxIdleTime: nil, maxAge: nil, maxGraceTime: nil, keepalive: nil))
        let frames = NIOHTTP2Handler(
            mode: .server, eventLoop: channel.eventLoop, connectionConfiguration: limits.connection,
            streamConfiguration: limits.stream, streamDelegate: management.http2StreamDelegate
        ) { stream in
            stream.eventLoop.makeCompletedFuture {
                let handler = HTTP2StreamHandler(connection: bound.value, endpoints: endpoints, peer: peer)
                try stream.pipeline.syncOperations.addHandler(handler)
            }
        }
        try channel.pipeline.syncOperations.addHandlers([frames, management, connection])
    }

    func handlerAdded(context: ChannelHandlerContext) { self.arm(context) }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.timer?.cancel()
        self.waiting = []
    }

    /// Ignores frames of the connection itself, which a preceding handler has processed.
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {}

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
        if self.streams.isEmpty, !self.isStopping { self.quietSince = .now() }
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
        let wait = self.isStopping ? self.limits.lingering : min(self.limits.requestLimit, self.limits.arrivalLimit)
        let part = TimeAmount.nanoseconds(max(wait.nanoseconds / 4, 1_000_000))
        self.timer = context.eventLoop.assumeIsolated().scheduleTask(in: part) {
            let now = NIODeadline.now()
            for stream in Array(self.streams.values) { stream.look(now, self.limits) }
            if self.streams.isEmpty || self.isGivingWay && self.requests == 0 {
                if self.isStopping {
                    if now - self.quietSince >= self.limits.lingering { return context.close(promise: nil) }
                } else if now - self.quietSince >= self.limits.requestLimit {
                    // Like a stop of the server: the preceding handler sends GOAWAY.
                    context.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
                }
            }
            self.arm(context)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is ConnectionSlot.GiveWay {
            guard self.slot.isGivingWay else { return }
            self.isGivingWay = true
            guard !self.isStopping else { return }
            // Like a stop of the server: the preceding handler sends GOAWAY.
            return context.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
        }
        guard event is ChannelShouldQuiesceEvent else { return context.fireUserInboundEventTriggered(event) }
        guard !self.isStopping else { return }
        self.isStopping = true
        self.quietSince = .now()
        self.timer?.cancel()
        self.arm(context)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // Anything else, including a flood, was answered by GOAWAY.
        if !Self.concernsOneStream(error) { context.close(promise: nil) }
    }

    /// True if only the stream was reset: a malformed request, or one above the announced number.
    ///
    /// Source: RFC 9113 §5.1.2, §8.1.1
    private static func concernsOneStream(_ error: any Error) -> Bool {
        let cause = (error as? NIOHTTP2Errors.StreamError)?.baseError ?? error
        switch cause {
        case is NIOHTTP2Errors.ForbiddenHeaderField, is NIOHTTP2Errors.InvalidPseudoHeaders,
            is NIOHTTP2Errors.MissingPseudoHeader, is NIOHTTP2Errors.DuplicatePseudoHeader,
            is NIOHTTP2Errors.PseudoHeaderAfterRegularHeader, is NIOHTTP2Errors.UnknownPseudoHeader,
            is NIOHTTP2Errors.InvalidPseudoHeaderValue, is NIOHTTP2Errors.EmptyPathHeader,
            is NIOHTTP2Errors.InvalidHTTP2HeaderFieldName, is NIOHTTP2Errors.InvalidHTTP2HeaderFieldValue,
            is NIOHTTP2Errors.ContentLengthViolated, is NIOHTTP2Errors.ContentLengthHeadersMismatch,
            is NIOHTTP2Errors.ContentLengthHeaderNegative, is NIOHTTP2Errors.ContentLengthHeaderMalformedValue,
            is NIOHTTP2Errors.MaxStreamsViolation:
            return true
        default: return false
        }
    }
}
