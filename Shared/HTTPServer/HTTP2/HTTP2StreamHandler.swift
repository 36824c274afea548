import NIOCore
import NIOHPACK
import NIOHTTP1
import NIOHTTP2

/// One HTTP/2 stream, which is one request and its answer.
///
/// Thin: the decoder interprets the frames, the connection manages everything that streams share.
final class HTTP2StreamHandler: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame.FramePayload
    typealias OutboundOut = HTTP2Frame.FramePayload

    private enum State {
        /// Goes to `answering`, or to `writing` if the frames do not form a request.
        case receiving
        /// The request is being processed, or waits until it may be. Goes to `writing`.
        case answering(Request.Method)
        /// Goes to `ended` when the client has read the answer.
        case writing
        /// Further input is ignored.
        case ended
    }

    private let connection: HTTP2ConnectionHandler
    private let endpoints: any Responder
    private let peer: Peer
    private var decoder: StreamRequestDecoder
    private var state = State.receiving
    /// The time when the state began.
    private var since = NIODeadline.now()
    /// Bytes of this request's body that the connection counts.
    private var bodyBytes = 0
    /// Bytes of the answer that the connection counts before it exists.
    private var reserved = 0
    /// The request, from its arrival until it is processed.
    private var request: Request?
    /// True if the connection counts a request of this stream.
    private var isCounted = false
    /// The same in the account of all connections, from the first part that arrives; nil if it is small and never
    /// waited.
    private var counted: CountedRequest?
    private var context: ChannelHandlerContext?
    private let presence = Presence()

    init(connection: HTTP2ConnectionHandler, endpoints: any Responder, peer: Peer) {
        self.connection = connection
        self.endpoints = endpoints
        self.peer = peer
        self.decoder = StreamRequestDecoder(peer: peer, reading: endpoints.reading, presence: self.presence)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        self.connection.opened(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.end()
        self.context = nil
        self.connection.closed(self)
    }

    func channelInactive(context: ChannelHandlerContext) { self.end() }

    /// Ends the stream after it was reset, by the client or because of an error of the client.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.end()
        context.close(promise: nil)
    }

    private func end() {
        switch self.state {
        // A role that makes an answer keeps the body.
        case .answering where self.request == nil, .ended: break
        case .receiving, .answering, .writing: self.uncount()
        }
        self.state = .ended
        self.presence.leave()
        self.request = nil
        self.giveBackBody()
        self.giveBackReserved()
        self.decoder.discard()
        guard self.isCounted else { return }
        self.isCounted = false
        self.connection.ended(self)
    }

    private func giveBackReserved() {
        self.connection.unwritten -= self.reserved
        self.reserved = 0
    }

    private func giveBackBody() {
        self.connection.bodyBytes -= self.bodyBytes
        self.bodyBytes = 0
    }

    private func uncount() {
        self.counted?.ended()
        self.counted = nil
    }

    // MARK: Input

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .receiving = self.state else { return }
        do {
            let event: StreamRequestDecoder.Event?
            switch self.unwrapInboundIn(data) {
            case .headers(let headers):
                event = try self.decoder.receive(headers.headers, isLast: headers.endStream)
            case .data(let part):
                // Reading yields buffers only; files are used for writing.
                guard case .byteBuffer(let bytes) = part.data else { return }
                event = try self.decoder.receive(bytes, isLast: part.endStream)
                self.bodyBytes += bytes.readableBytes
                self.connection.bodyBytes += bytes.readableBytes
            case .alternativeService, .goAway, .origin, .ping, .priority, .pushPromise, .rstStream, .settings,
                .windowUpdate:
                return
            }
            switch event {
            case .request(let request): self.received(request)
            case .expectsContinue:
                let head = HTTP2Frame.FramePayload.headers(.init(headers: [":status": "100"]))
                context.writeAndFlush(self.wrapOutboundOut(head), promise: nil)
            case nil: break
            }
            // One connection may have many bodies that never end, or whose answers are not read.
            if self.bodyBytes > 0, self.connection.hasTooManyBodies { self.reset(.enhanceYourCalm, context) }
        } catch {
            self.refuse(error, context)
        }
    }

    /// Counts the memory of a request that has arrived in part.
    func channelReadComplete(context: ChannelHandlerContext) {
        if case .receiving = self.state, let (client, bytes) = self.decoder.unfinished {
            self.counting(client, context).arrived(bytes: bytes)
        }
        context.fireChannelReadComplete()
    }

    private func counting(_ client: ClientAddress?, _ context: ChannelHandlerContext) -> CountedRequest {
        let counted = self.counted ?? CountedRequest(self.connection.bodies, of: client, on: context.channel)
        self.counted = counted
        return counted
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard let event = event as? CountedRequest.GiveWay else {
            return context.fireUserInboundEventTriggered(event)
        }
        guard event.request === self.counted else { return }
        switch self.state {
        case .receiving: self.refuse(.gaveWay, context)
        case .answering where self.request != nil: self.refuse(.gaveWay, context)
        case .answering, .writing, .ended: break
        }
    }

    private func received(_ request: Request) {
        self.state = .answering(request.method)
        self.request = request
        self.isCounted = true
        self.connection.arrived(self)
        // One that waits counts as one that has arrived in part: its client decides when the answers before are read.
        guard self.request != nil, let context = self.context else { return }
        self.counting(self.peer.counted(request), context).arrived(bytes: request.storageBytes)
    }

    /// Has the request answered, after it waited for its turn.
    ///
    /// - Parameter estimate: counts instead of the answer's bytes until these exist. Only packages are large.
    func work(reserving estimate: Int) {
        guard case .answering = self.state, let context = self.context, let request = self.request,
            context.channel.parent?.isActive == true
        else { return }
        self.request = nil
        self.giveBackBody()
        if self.counted != nil || request.body.readableBytes >= BodyAccount.large {
            self.counting(self.peer.counted(request), context).completed(bytes: request.storageBytes)
        }
        self.reserved = request.method == .get ? estimate : 0
        self.connection.unwritten += self.reserved
        let answer = self.endpoints.answer(request, on: context.eventLoop)
        // The closure captures only objects of this loop, on which the answer arrives.
        answer.assumeIsolated().whenSuccess { answer in
            self.uncount()
            // If the client reset the stream meanwhile it gets nothing.
            guard case .answering(let method) = self.state, let context = self.context else { return }
            self.write(answer, withBody: method != .head, context) {
                // Source: RFC 9113 §8.1
                if self.decoder.isBodyIgnored { self.reset(.noError, context) }
            }
        }
    }

    // MARK: Output

    private func refuse(_ fault: RequestFault, _ context: ChannelHandlerContext) {
        let isWhole = self.request != nil
        let answer = self.endpoints.refusal(fault, of: self.request ?? self.decoder.request, on: context.eventLoop)
        self.request = nil
        self.giveBackBody()
        self.decoder.discard()
        self.write(answer, withBody: true, context) {
            // Anything the client still sends is not needed. Source: RFC 9113 §8.1
            if !isWhole { self.reset(.noError, context) }
        }
    }

    private func write(
        _ answer: Answer, withBody: Bool, _ context: ChannelHandlerContext, then next: @escaping () -> Void = {}
    ) {
        self.state = .writing
        self.uncount()
        self.since = .now()
        let parts = withBody ? answer.body.filter { $0.readableBytes > 0 } : []
        let length = parts.reduce(0) { $0 + $1.readableBytes }
        self.giveBackReserved()
        self.connection.unwritten += length
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { result in
            self.connection.unwritten -= length
            self.connection.goOn()
            if case .success = result { next() }
        }
        let head = HTTP2Frame.FramePayload.headers(.init(headers: self.fields(answer), endStream: parts.isEmpty))
        context.write(self.wrapOutboundOut(head), promise: parts.isEmpty ? written : nil)
        for (index, part) in parts.enumerated() {
            let isLast = index == parts.count - 1
            let data = HTTP2Frame.FramePayload.data(.init(data: .byteBuffer(part), endStream: isLast))
            context.write(self.wrapOutboundOut(data), promise: isLast ? written : nil)
        }
        context.flush()
    }

    private func fields(_ answer: Answer) -> HPACKHeaders {
        var fields = HPACKHeaders([(":status", String(answer.status.code))])
        for (name, value) in answer.headers { fields.add(name: name.lowercased(), value: value) }
        fields.add(name: "date", value: self.connection.date)
        // 204 and 304 have no body, and no length of one (RFC 9110 §8.6).
        if answer.status != .noContent && answer.status != .notModified {
            fields.add(name: "content-length", value: String(answer.contentLength))
        }
        return fields
    }

    private func reset(_ reason: HTTP2ErrorCode, _ context: ChannelHandlerContext) {
        if case .ended = self.state { return }
        self.end()
        context.writeAndFlush(self.wrapOutboundOut(.rstStream(reason)), promise: nil)
    }

    /// Enforces the time limits. The connection calls it periodically.
    func look(_ now: NIODeadline, _ limits: HTTP2Limits) {
        guard let context = self.context else { return }
        switch self.state {
        case .receiving where now - self.since >= limits.arrivalLimit:
            self.refuse(RequestFault(status: .requestTimeout, message: "the request came too slowly"), context)
        case .writing where now - self.since >= limits.answerLimit: self.reset(.cancel, context)
        // The duration of an answer is limited by the endpoints themselves.
        case .receiving, .writing, .answering, .ended: break
        }
    }
}
