import NIOCore
import NIOHPACK
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
    /// The memory of unfinished requests of all connections.
    let bodies: BodyAccount
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
    /// The moment to look at all streams.
    private var deadline: ConnectionDeadline?
    private var dates = DateLine()
    /// Streams whose requests wait until answers have been read; at most the number of allowed streams.
    private var waiting: [HTTP2StreamHandler] = []
    /// Requests that arrived and whose streams still exist.
    private var requests = 0

    /// Bytes of bodies whose requests are not being processed yet.
    var bodyBytes = 0
    /// Bytes of answers that the client has not read yet, and estimates of those that are being made.
    var unwritten = 0

    private init(
        limits: HTTP2Limits, slot: ConnectionSlot, peer: Peer, bodies: BodyAccount, goAway: GoAwayHandler
    ) {
        self.limits = limits
        self.slot = slot
        self.bodies = bodies
        self.goAway = goAway
        // A proxy carries many clients, and one that waits for its package must not keep the others waiting.
        self.estimate = peer.isTrusted ? 0 : limits.estimate
    }

    /// Sets up the pipeline of a connection that negotiated HTTP/2.
    static func add(
        to channel: any Channel, slot: ConnectionSlot, endpoints: any Responder, peer: Peer, bodies: BodyAccount,
        limits: HTTP2Limits
    ) throws {
        let goAway = GoAwayHandler()
        let connection = HTTP2ConnectionHandler(
            limits: limits, slot: slot, peer: peer, bodies: bodies, goAway: goAway)
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
        self.deadline = ConnectionDeadline(on: context.eventLoop) { self.look(context) }
        self.arm()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.deadline?.drop()
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

    /// Sets the moment of the next look: four times per limit, or more often when the end is near.
    private func arm() {
        let isOpen = if case .open = self.stage { true } else { false }
        let wait = isOpen ? min(self.limits.requestLimit, self.limits.arrivalLimit) : self.limits.lingering
        let part = TimeAmount.nanoseconds(max(wait.nanoseconds / 4, 1_000_000))
        self.deadline?.move(to: .now() + part)
    }

    private func look(_ context: ChannelHandlerContext) {
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
        self.arm()
    }

    /// Tells the client that the connection ends. Streams that it opens before it knows are answered.
    private func announceEnd(_ context: ChannelHandlerContext) {
        guard case .open = self.stage else { return }
        self.stage = .announced
        self.quietSince = .now()
        self.goAway.announce()
        self.arm()
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

/// The GOAWAY frames of an HTTP/2 connection; between the library that makes frames and the network.
///
/// The library refuses each new stream after its first GOAWAY, even below the announced number, so the announcement of
/// an end passes it by. For an error of the connection it names no stream, or the highest there can be: here both
/// become the last stream that was processed. Source: RFC 9113 §5.4.1, §6.8
final class GoAwayHandler: ChannelOutboundHandler {
    typealias OutboundIn = IOData
    typealias OutboundOut = IOData

    /// Confirmed by the client, it proves that the announcement has arrived.
    static let ping = HTTP2PingData(withInteger: 0x5761_7962_696C_6C00)
    /// Source: RFC 9113 §4.1, §6.8
    private static let headLength = 9
    private static let type: UInt8 = 7

    /// The last stream that was processed.
    var lastStream = HTTP2StreamID.rootStream
    /// True if the library has sent GOAWAY for an error.
    private(set) var isForError = false
    /// True if the next write is the payload of the frame whose head was the last one.
    private var isPayloadNext = false
    private var context: ChannelHandlerContext?

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard !self.isPayloadNext, case .byteBuffer(var bytes) = self.unwrapOutboundIn(data),
            let head = bytes.getInteger(at: bytes.readerIndex, as: UInt32.self),
            bytes.readableBytes >= Self.headLength
        else {
            self.isPayloadNext = false
            return context.write(data, promise: promise)
        }
        self.isPayloadNext = Int(head >> 8) > bytes.readableBytes - Self.headLength
        guard UInt8(truncatingIfNeeded: head) == Self.type else { return context.write(data, promise: promise) }
        let payload = bytes.readerIndex + Self.headLength
        bytes.setInteger(UInt32(Int(self.lastStream)), at: payload)
        if bytes.getInteger(at: payload + 4, as: UInt32.self) != 0 { self.isForError = true }
        context.write(self.wrapOutboundOut(.byteBuffer(bytes)), promise: promise)
    }

    /// Sends GOAWAY with the highest number and a ping.
    func announce() {
        guard let context = self.context else { return }
        var bytes = context.channel.allocator.buffer(capacity: 2 * Self.headLength + 16)
        bytes.writeInteger(UInt32(8 << 8) | UInt32(Self.type))
        bytes.writeRepeatingByte(0, count: 5)
        bytes.writeInteger(UInt32(Int(HTTP2StreamID.maxID)))
        bytes.writeInteger(UInt32(0))
        bytes.writeInteger(UInt32(8 << 8) | 6)
        bytes.writeRepeatingByte(0, count: 5)
        bytes.writeInteger(Self.ping.integer)
        context.writeAndFlush(self.wrapOutboundOut(.byteBuffer(bytes)), promise: nil)
    }

    /// Returns when the network has everything that was written.
    func sent() -> EventLoopFuture<Void> {
        guard let context = self.context else { preconditionFailure("in a pipeline") }
        return context.writeAndFlush(self.wrapOutboundOut(.byteBuffer(ByteBuffer())))
    }
}

/// Limits for an HTTP/2 connection.
///
/// One connection is one client, or one proxy with many: the numbers leave room for the latter.
struct HTTP2Limits: Sendable {
    /// Concurrent requests, announced to the client.
    var streams = 100
    /// Bytes of a request's fields, as HPACK counts them. More ends the connection: its compression state is lost.
    /// Source: RFC 9113 §6.5.2, §10.5.1
    var headerList = HeadLimits().head
    /// Bytes of all bodies whose requests are not being processed yet. One body may have `RequestLimits.body`.
    var bodies = RequestLimits.bodies
    /// Bytes of answers not yet read by the client after which no further request is processed.
    var unwritten = 1 << 20
    /// Bytes that a GET counts as until its answer exists; a package has 20 kB to a few hundred.
    var estimate = 32 << 10
    /// The longest time for a request to arrive, and for a connection to be without one.
    var requestLimit = RequestLimits.idle
    /// The time that a request may take to arrive, if it is less than `requestLimit`.
    var arrivalLimit = RequestLimits.idle
    /// The longest time for a client to read an answer.
    var answerLimit = RequestLimits.answer
    /// The time for which a connection that must end stays open for requests in flight.
    var lingering = TimeAmount.seconds(2)

    /// The protections of swift-nio-http2. A connection that exceeds them is ended by GOAWAY.
    ///
    /// Source: RFC 9113 §10.5; CVE-2023-44487 (rapid reset), CVE-2019-9512 to 9518 (floods), CVE-2024-27316
    /// (CONTINUATION)
    var connection: NIOHTTP2Handler.ConnectionConfiguration {
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        connection.initialSettings = [
            HTTP2Setting(parameter: .maxConcurrentStreams, value: self.streams),
            HTTP2Setting(parameter: .maxHeaderListSize, value: self.headerList),
            HTTP2Setting(parameter: .initialWindowSize, value: RequestLimits.body),
        ]
        connection.maximumSequentialEmptyDataFrames = 1
        connection.maximumSequentialContinuationFrames = 4
        // Answers to PING and SETTINGS that a client does not read.
        connection.maximumBufferedControlFrames = 256
        connection.maximumConnectionGlitches = 100
        connection.controlFrameRateLimit.maximumCount = 100
        return connection
    }

    /// The protections per kind of frame that belongs to a stream.
    var stream: NIOHTTP2Handler.StreamConfiguration {
        var stream = NIOHTTP2Handler.StreamConfiguration()
        stream.streamResetFrameRateLimit.maximumCount = 100
        stream.streamErrorRateLimit.maximumCount = 100
        return stream
    }
}
