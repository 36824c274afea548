import NIOCore
import NIOHPACK
import NIOHTTP2

/// One client's HTTP/2 connection: collects requests, has the rules decide, sends the answers.
///
/// Works on frames, without a channel per stream. Answers are flushed once per burst of reading.
final class APNSSimulatorConnection: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    let number: Int
    /// The topic of the client's certificate; nil without one.
    let certificateTopic: String?
    let hasCertificate: Bool
    private let state: APNSSimulatorState
    private let wire: APNSSimulatorWire
    private var context: ChannelHandlerContext?
    private var streams: [HTTP2StreamID: APNSSimulatorRequest] = [:]
    private var tokens = APNSSimulatorTokenHistory()
    /// The highest stream that was opened.
    private var highest: HTTP2StreamID = 0
    /// The highest stream whose request stands in the journal: not to be sent again.
    private var highestDecided: HTTP2StreamID = 0
    /// Nothing is read and nothing answered: the client talks to nobody.
    private var isSilent = false
    /// Set once GOAWAY is sent: streams above it are not looked at.
    private var lastStream: HTTP2StreamID?
    private var streamLimit: Int
    private var unacknowledged = 0
    private(set) var requests = 0
    private(set) var refusedStreams = 0

    /// Received bytes of bodies after which the connection's window is opened again: half of it.
    ///
    /// Source: RFC 9113 §6.9.2: it begins with 65,535 bytes
    static let windowStep = 32_768
    /// How long a client has to close after GOAWAY, so that it can read what is under way.
    static let lingering = TimeAmount.seconds(1)

    init(
        number: Int, hasCertificate: Bool, certificateTopic: String?, state: APNSSimulatorState, wire: APNSSimulatorWire
    ) {
        self.number = number
        self.hasCertificate = hasCertificate
        self.certificateTopic = certificateTopic
        self.state = state
        self.wire = wire
        // Source: Wallet Orders §4.5: with token authentication one stream until the first valid token
        self.streamLimit = hasCertificate ? state.streamLimit(connection: number) : 1
    }

    /// What the client is told first.
    var initialSettings: HTTP2Settings {
        [
            HTTP2Setting(parameter: .maxConcurrentStreams, value: self.streamLimit),
            HTTP2Setting(parameter: .maxHeaderListSize, value: 16_384),
        ]
    }

    var openStreams: Int { self.streams.count }
    /// How the client has shown who it is: `certificate`, `token` or `none`.
    var authentication: String { self.hasCertificate ? "certificate" : self.tokens.isProven ? "token" : "none" }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelInactive(context: ChannelHandlerContext) {
        self.streams = [:]
        self.state.close(self.number)
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = self.unwrapInboundIn(data)
        switch frame.payload {
        case .headers(let headers): self.receive(headers, on: frame.streamID)
        case .data(let data): self.receive(data, on: frame.streamID)
        case .rstStream: self.streams[frame.streamID] = nil
        default: break
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        context.flush()
        context.fireChannelReadComplete()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let closed = event as? StreamClosedEvent { self.streams[closed.streamID] = nil }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // A stream's error was answered with RST_STREAM by the handler before us; anything else ends the connection.
        if let error = error as? NIOHTTP2Errors.StreamError {
            self.streams[error.streamID] = nil
        } else {
            context.close(promise: nil)
        }
    }

    private func receive(_ headers: HTTP2Frame.FramePayload.Headers, on stream: HTTP2StreamID) {
        if self.streams[stream] == nil {
            guard stream > self.highest else { return }
            self.highest = stream
            if let lastStream, stream > lastStream { return }
            guard self.streams.count < self.streamLimit else {
                self.refusedStreams += 1
                return self.write(.rstStream(.refusedStream), on: stream)
            }
            var request = APNSSimulatorRequest()
            for (name, value, _) in headers.headers { request.take(name: name, value: value) }
            self.streams[stream] = request
        }
        if headers.endStream { self.finish(stream) }
    }

    private func receive(_ data: HTTP2Frame.FramePayload.Data, on stream: HTTP2StreamID) {
        self.unacknowledged += data.data.readableBytes + (data.paddingBytes ?? 0)
        if self.unacknowledged >= Self.windowStep {
            self.write(.windowUpdate(windowSizeIncrement: self.unacknowledged), on: .rootStream)
            self.unacknowledged = 0
        }
        guard let request = self.streams[stream], case .byteBuffer(let buffer) = data.data else { return }
        // One byte too many is kept as the proof; the rest is read and thrown away, so that the client gets its answer.
        let kept = APNSSimulatorRules.bodyLimit + 1 - request.body.count
        self.streams[stream]?.body.append(contentsOf: buffer.readableBytesView.prefix(kept))
        if data.endStream {
            self.finish(stream)
        } else if kept <= buffer.readableBytes, data.data.readableBytes > 0 {
            self.write(.windowUpdate(windowSizeIncrement: data.data.readableBytes), on: stream)
        }
    }

    private func finish(_ stream: HTTP2StreamID) {
        guard let request = self.streams[stream] else { return }
        self.requests += 1
        self.decide(request, on: stream)
    }

    // MARK: deciding

    private func decide(_ request: APNSSimulatorRequest, on stream: HTTP2StreamID) {
        let now = self.state.configuration.nowEpochMilliseconds()
        let identifier =
            request.identifier.flatMap { APNSSimulatorIdentifier(canonical: $0) }
            ?? APNSSimulatorIdentifier.random(using: &self.state.random)
        let wasProven = self.tokens.isProven
        if let refusal = self.refusal(of: request, now: now) {
            self.record(request, identifier, refusal, now, on: stream)
            self.answer(refusal, identifier, on: stream, after: self.state.configuration.delayMilliseconds)
        } else {
            self.deliver(request, identifier, on: stream, now: now)
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

    /// Answers a request that keeps all rules, unless a fault has other plans.
    private func deliver(
        _ request: APNSSimulatorRequest, _ identifier: APNSSimulatorIdentifier, on stream: HTTP2StreamID, now: Int64
    ) {
        let usual = self.state.configuration.delayMilliseconds
        switch self.state.faults.hit(token: request.deviceToken ?? "", connection: self.number) {
        case nil, .maxConcurrentStreams:
            self.record(request, identifier, .accepted, now, on: stream)
            self.answer(.accepted, identifier, on: stream, after: usual)
        case .delay(let milliseconds):
            self.record(request, identifier, .accepted, now, on: stream)
            self.answer(.accepted, identifier, on: stream, after: milliseconds)
        case .answer(let answer, let delay):
            self.record(request, identifier, answer, now, on: stream)
            self.answer(answer, identifier, on: stream, after: delay > 0 ? delay : usual)
        case .silence:
            self.record(request, identifier, nil, now, on: stream)
        case .cut:
            self.record(request, identifier, nil, now, on: stream)
            self.wire.cut()
        case .goAway(let reason, let processed):
            // A stream below one that was processed cannot be left out: GOAWAY names the last one only.
            if processed || stream < self.highestDecided {
                self.record(request, identifier, .accepted, now, on: stream)
                self.answer(.accepted, identifier, on: stream, after: 0)
            }
            self.goAway(reason, last: self.highestDecided)
        }
    }

    private func record(
        _ request: APNSSimulatorRequest, _ identifier: APNSSimulatorIdentifier, _ answer: APNSSimulatorAnswer?,
        _ now: Int64, on stream: HTTP2StreamID
    ) {
        self.highestDecided = max(self.highestDecided, stream)
        let topic = self.state.interned(request.topic ?? self.certificateTopic ?? "")
        self.state.record { sequence in
            APNSSimulatorDelivery(
                sequence: sequence, token: String(request.deviceToken ?? ""), topic: topic, apnsID: identifier,
                pushType: request.pushType, priority: request.priority.map { Int($0) ?? 0 } ?? 10,
                expirationEpochSeconds: request.expiration.flatMap { APNSSimulatorRules.seconds($0) },
                status: answer?.status ?? 0, reason: answer?.reason, receivedEpochMilliseconds: now,
                connection: self.number)
        }
    }

    // MARK: sending

    private func answer(
        _ answer: APNSSimulatorAnswer, _ identifier: APNSSimulatorIdentifier, on stream: HTTP2StreamID, after delay: Int
    ) {
        guard delay > 0 else { return self.send(answer, identifier, on: stream) }
        self.state.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(Int64(delay))) {
            self.send(answer, identifier, on: stream)
            self.context?.flush()
        }
    }

    private func send(_ answer: APNSSimulatorAnswer, _ identifier: APNSSimulatorIdentifier, on stream: HTTP2StreamID) {
        // The client may have reset the stream, or a GOAWAY put it aside, while the answer was late.
        guard !self.isSilent, self.streams.removeValue(forKey: stream) != nil else { return }
        let headers: HPACKHeaders = [":status": String(answer.status), "apns-id": identifier.description]
        let body = answer.body
        self.write(.headers(.init(headers: headers, endStream: body.isEmpty)), on: stream)
        if !body.isEmpty {
            self.write(.data(.init(data: .byteBuffer(ByteBuffer(string: body)), endStream: true)), on: stream)
        }
        self.closeWhenDone()
    }

    private func write(_ payload: HTTP2Frame.FramePayload, on stream: HTTP2StreamID) {
        guard let context = self.context else { return }
        context.write(self.wrapOutboundOut(HTTP2Frame(streamID: stream, payload: payload)), promise: nil)
    }

    // MARK: faults

    /// Does at once what an immediate fault says.
    func act(_ effect: APNSSimulatorFault.Effect) {
        switch effect {
        case .cut: self.wire.cut()
        case .silence: self.setReading(false)
        case .goAway(let reason, let processed):
            self.goAway(reason, last: processed ? self.highest : self.highestDecided)
            self.context?.flush()
        case .answer, .delay, .maxConcurrentStreams: break
        }
    }

    /// Tells the client the stream limit that holds now.
    func announceStreamLimit() {
        let proven = self.hasCertificate || self.tokens.isProven
        self.streamLimit = proven ? self.state.streamLimit(connection: self.number) : 1
        let setting = HTTP2Setting(parameter: .maxConcurrentStreams, value: self.streamLimit)
        self.write(.settings(.settings([setting])), on: .rootStream)
        self.context?.flush()
    }

    /// Goes back to normal after the faults were cleared.
    func recover() {
        self.setReading(true)
        if self.streamLimit != self.state.streamLimit(connection: self.number) { self.announceStreamLimit() }
    }

    private func setReading(_ isReading: Bool) {
        self.isSilent = !isReading
        self.context?.channel.setOption(.autoRead, value: isReading).whenFailure { _ in }
        if isReading { self.context?.read() }
    }

    private func goAway(_ reason: String, last: HTTP2StreamID) {
        guard self.lastStream == nil else { return }
        self.lastStream = last
        self.streams = self.streams.filter { $0.key <= last }
        // Source: Wallet Orders §4.5: the debug data is JSON with `reason`
        let debug = ByteBuffer(string: APNSSimulatorAnswer(200, reason).body)
        self.write(.goAway(lastStreamID: last, errorCode: .noError, opaqueData: debug), on: .rootStream)
        self.closeWhenDone()
    }

    private func closeWhenDone() {
        guard self.lastStream != nil, self.streams.isEmpty else { return }
        self.state.eventLoop.assumeIsolated().scheduleTask(in: Self.lingering) { self.context?.close(promise: nil) }
    }
}
