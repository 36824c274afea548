import NIOCore
import NIOHPACK
import NIOHTTP2

/// One client's HTTP/2 connection: collects requests, applies the rules, sends the answers.
///
/// It works on frames, without a channel per stream. Answers are flushed once per burst of reading. Intended faults are
/// in `APNSSimulatorConnection+faults.swift`.
final class APNSSimulatorConnection: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    let number: Int
    /// The topic of the client's certificate; nil without one.
    let certificateTopic: String?
    let hasCertificate: Bool
    let state: APNSSimulatorState
    let wire: APNSSimulatorWire
    let gate: APNSSimulatorGate
    var context: ChannelHandlerContext?
    /// Streams that are open and not fully answered.
    var streams: [Int: APNSSimulatorRequest] = [:]
    var tokens = APNSSimulatorTokenHistory()
    var conduct = APNSSimulatorConduct()
    var conditions = APNSSimulatorConditions()
    var unheard = APNSSimulatorUnheard()
    /// The highest stream that was opened.
    var highest = 0
    /// The highest stream whose request is in the journal, and which the client must not send again.
    var highestDecided = 0
    /// The last stream of the final GOAWAY, above which streams are ignored; nil until that is sent.
    var lastStream: Int?
    /// True if any GOAWAY was sent.
    var hasSentGoAway = false
    /// True if the connection closes after GOAWAY when no request is left to answer.
    var closesAfterGoAway = true
    /// True while nothing may be sent: before late first SETTINGS, and after the output was closed.
    var isHeld = false
    /// True if the client has a cause to close the connection: a missing answer, or one that requires closing.
    var hasGivenCause = false
    var streamLimit: Int
    private var unacknowledged = 0
    private(set) var requests = 0
    private(set) var refusedStreams = 0
    private(set) var mostStreams = 0

    /// Bytes of bodies received before the connection's window is restored: half of the window.
    ///
    /// Source: RFC 9113 §6.9.2: it begins with 65,535 bytes
    static let windowStep = 32_768

    init(
        number: Int, hasCertificate: Bool, certificateTopic: String?, state: APNSSimulatorState,
        wire: APNSSimulatorWire
    ) {
        self.number = number
        self.hasCertificate = hasCertificate
        self.certificateTopic = certificateTopic
        self.state = state
        self.wire = wire
        self.conditions = state.faults.conditions(connection: number)
        // Source: Wallet Orders §4.5: with token authentication one stream until the first valid token
        self.streamLimit = hasCertificate ? self.conditions.streamLimit ?? state.configuration.maxConcurrentStreams : 1
        self.gate = APNSSimulatorGate(settings: [
            (3, UInt32(clamping: self.streamLimit)), (6, 16_384),
            (4, self.conditions.isWindowShut ? 0 : 65_535),
        ])
        self.conduct.announced(limit: self.streamLimit)
    }

    /// The SETTINGS for NIOHTTP2Handler in place of the real ones, without a stream limit that it would enforce.
    static let handlerSettings: HTTP2Settings = [
        HTTP2Setting(parameter: .maxConcurrentStreams, value: 0x7FFF_FFFF),
        HTTP2Setting(parameter: .maxHeaderListSize, value: 16_384),
    ]

    var openStreams: Int { self.streams.count }
    /// The client's authentication: `certificate`, `token` or `none`.
    var authentication: String { self.hasCertificate ? "certificate" : self.tokens.isProven ? "token" : "none" }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        self.gate.onSettingsAcknowledged = { [weak self] in self?.settingsAcknowledged() }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.gate.onSettingsAcknowledged = {}
        self.context = nil
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.streams = [:]
        self.state.closed(self, byClient: !self.wire.hasEnded && !self.hasSentGoAway && !self.hasGivenCause)
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = self.unwrapInboundIn(data)
        let stream = Int(frame.streamID)
        switch frame.payload {
        case .headers(let headers): self.receive(headers, on: stream)
        case .data(let data): self.receive(data, on: stream)
        case .rstStream(let code):
            self.streams[stream] = nil
            self.state.note(.reset(stream: stream, errorCode: code.networkCode, byClient: true), self.number)
            self.closeWhenDone()
        case .ping(let data, let isAnswer): self.receivePing(data, isAnswer: isAnswer)
        case .goAway(_, let code, _): self.state.note(.goAwayReceived(errorCode: code.networkCode), self.number)
        default: break
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        context.flush()
        context.fireChannelReadComplete()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let closed = event as? StreamClosedEvent { self.streams[Int(closed.streamID)] = nil }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if error is any NIOHTTP2Error { self.state.note(.protocolError, self.number) }
        // NIOHTTP2Handler has answered a stream's error with RST_STREAM; any other error ends the connection.
        if let error = error as? NIOHTTP2Errors.StreamError {
            self.streams[Int(error.streamID)] = nil
        } else {
            context.close(promise: nil)
        }
    }

    // MARK: receiving

    private func receive(_ headers: HTTP2Frame.FramePayload.Headers, on stream: Int) {
        if self.streams[stream] == nil {
            guard stream > self.highest else { return }
            self.highest = stream
            if let violation = self.conduct.opened(beside: self.streams.count) {
                self.state.note(violation, self.number, stream: stream)
            }
            if let lastStream, stream > lastStream { return }
            guard self.streams.count < self.streamLimit else {
                self.refusedStreams += 1
                return self.write(.rstStream(.refusedStream), on: stream)
            }
            var request = APNSSimulatorRequest()
            for (name, value, indexing) in headers.headers {
                request.take(name: name, value: value)
                if case .indexable = indexing { request.takeIndexed(name) }
            }
            self.streams[stream] = request
            self.mostStreams = max(self.mostStreams, self.streams.count)
        }
        if headers.endStream { self.finish(stream) }
    }

    private func receive(_ data: HTTP2Frame.FramePayload.Data, on stream: Int) {
        self.unacknowledged += data.data.readableBytes + (data.paddingBytes ?? 0)
        if self.unacknowledged >= Self.windowStep, !self.conditions.isWindowShut { self.openWindow() }
        guard let request = self.streams[stream], case .byteBuffer(let buffer) = data.data else { return }
        // One byte above the limit is kept, so that the body counts as too large. The rest is read and discarded, so
        // that the client gets its answer.
        let kept = APNSSimulatorRules.bodyLimit + 1 - request.body.count
        self.streams[stream]?.body.append(contentsOf: buffer.readableBytesView.prefix(kept))
        if data.endStream {
            self.finish(stream)
        } else if kept <= buffer.readableBytes, data.data.readableBytes > 0 {
            self.write(.windowUpdate(windowSizeIncrement: data.data.readableBytes), on: stream)
        }
    }

    /// Restores the connection's window.
    func openWindow() {
        guard self.unacknowledged > 0 else { return }
        self.write(.windowUpdate(windowSizeIncrement: self.unacknowledged), on: 0)
        self.unacknowledged = 0
    }

    private func finish(_ stream: Int) {
        guard let request = self.streams[stream] else { return }
        self.requests += 1
        self.decide(request, on: stream)
        self.state.requestArrived()
    }

    private func receivePing(_ data: HTTP2PingData, isAnswer: Bool) {
        if isAnswer {
            if data == Self.goAwayPing { self.conduct.hasReadGoAway() }
        } else {
            self.state.note(.ping, self.number)
            if let violation = self.conduct.pinged(atMilliseconds: self.state.nowEpochMilliseconds) {
                self.state.note(violation, self.number)
            }
        }
    }

    private func settingsAcknowledged() {
        self.conduct.acknowledged()
        if let limit = self.conduct.acknowledgedLimit {
            self.state.note(.settingsAcknowledged(streamLimit: limit), self.number)
        }
    }

    // MARK: deciding

    private func decide(_ request: APNSSimulatorRequest, on stream: Int) {
        let now = self.state.nowEpochMilliseconds
        let identifier = self.state.identifier(for: request)
        let wasProven = self.tokens.isProven
        if let refusal = self.refusal(of: request, now: now) {
            if let violation = refusal.violation { self.state.note(violation, self.number, stream: stream) }
            let delay = self.state.configuration.delayMilliseconds
            self.settle(request, identifier, refusal, on: stream, now: now, after: delay)
        } else {
            let fault = self.state.hit(token: request.deviceToken ?? "", connection: self.number)
            self.deliver(request, identifier, fault, on: stream, now: now)
        }
        if !self.hasCertificate, !wasProven, self.tokens.isProven { self.announceStreamLimit() }
    }

    private func refusal(of request: APNSSimulatorRequest, now: Int64) -> APNSSimulatorAnswer? {
        let rules = self.state.rules
        if let refusal = rules.refusal(ofShapeOf: request) { return refusal }
        if !self.hasCertificate {
            let refusal = self.state.tokenCheck.refusal(
                of: request.authorization, history: &self.tokens, nowEpochSeconds: now / 1000)
            if let refusal { return refusal }
        }
        return rules.refusal(ofHeadersOf: request, certificateTopic: self.certificateTopic)
            ?? rules.refusal(ofBody: request.body)
    }

    /// Records a request and answers it, immediately or late; without an answer the stream stays open.
    func settle(
        _ request: APNSSimulatorRequest, _ identifier: APNSSimulatorIdentifier, _ answer: APNSSimulatorAnswer?,
        on stream: Int, now: Int64, after delay: Int
    ) {
        let answer = self.conditions.isMute ? nil : answer?.given(nowEpochMilliseconds: now)
        self.highestDecided = max(self.highestDecided, stream)
        self.state.record(request, identifier, answer, self, stream: stream, now: now, delay: delay)
        self.unheard.decided(self.state.deliveryRing.last, stream: stream)
        if answer.map(Self.isCause) ?? true { self.hasGivenCause = true }
        guard let answer else { return }
        if delay > 0 {
            self.state.answerLater(answer, identifier, connection: self.number, stream: stream, after: delay)
        } else {
            self.send(answer, identifier, on: stream)
        }
    }

    /// Returns true if an answer means that its connection can no longer be used, or that APNs is unavailable.
    ///
    /// Source: Wallet Orders §4.6
    private static func isCause(_ answer: APNSSimulatorAnswer) -> Bool {
        answer.status >= 500
            || ["IdleTimeout", "ExpiredProviderToken", "UnrelatedKeyIdInToken"].contains(answer.reason)
    }

    // MARK: sending

    /// Sends an answer without flushing, unless its stream is gone.
    func send(_ answer: APNSSimulatorAnswer, _ identifier: APNSSimulatorIdentifier, on stream: Int) {
        // The client may have reset the stream, or a GOAWAY dropped it, while the answer was delayed.
        guard !self.conditions.isMute, self.streams[stream] != nil else { return }
        let ends = answer.form != .unfinished
        if ends {
            self.streams[stream] = nil
            self.unheard.answered(
                stream: stream, isHeld: self.isHeld || self.conditions.isBlackHole || self.conditions.trickle != nil,
                nowEpochMilliseconds: self.state.nowEpochMilliseconds)
        }
        var headers: HPACKHeaders = [":status": String(answer.status)]
        if answer.hasIdentifier { headers.add(name: "apns-id", value: identifier.description) }
        if self.state.configuration.isDevelopment {
            headers.add(name: "apns-unique-id", value: self.state.randomIdentifier().description)
        }
        if let seconds = answer.retryAfterSeconds { headers.add(name: "retry-after", value: String(seconds)) }
        let body = answer.body
        self.write(.headers(.init(headers: headers, endStream: body.isEmpty && ends)), on: stream)
        if !body.isEmpty {
            self.write(.data(.init(data: .byteBuffer(ByteBuffer(string: body)), endStream: ends)), on: stream)
        }
        self.closeWhenDone()
    }

    func write(_ payload: HTTP2Frame.FramePayload, on stream: Int) {
        guard let context = self.context else { return }
        context.write(self.wrapOutboundOut(HTTP2Frame(streamID: HTTP2StreamID(stream), payload: payload)), promise: nil)
    }
}
