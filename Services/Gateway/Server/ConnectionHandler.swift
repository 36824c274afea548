import Foundation
import NIOCore
import NIOHTTP1

/// One connection from a client: gathers a request, has it answered, writes the answer.
///
/// `configureHTTPServerPipeline` stands in front and lets one request through at a time. The body is bounded; what is
/// more is answered 413 and the connection closed. So is the time that a request may take to arrive, however slowly
/// its bytes drip.
final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    /// Most bytes of a request's body. A registration has some hundred, a log some thousand.
    static let bodyLimit = 64 << 10
    /// How long the rest of a refused body is passed over, so that the client gets to read the refusal. A socket that
    /// is closed while bytes wait in it is reset, and the answer may be lost with it.
    static let lingering = TimeAmount.seconds(2)

    private enum State {
        /// Goes to `receiving`.
        case idle
        /// Goes to `answering`, or to `closing` when the body is too large.
        case receiving(HTTPRequestHead, ByteBuffer)
        /// The answer is on its way. Goes to `idle`, or to `closing` when it is the connection's last.
        case answering
        /// Nothing that comes now is looked at.
        case closing
    }

    private let endpoints: Endpoints
    private let requestLimit: TimeAmount
    private var state = State.idle
    /// Since when the client could have sent a complete request.
    private var waitingSince = NIODeadline.now()
    private var timer: Scheduled<Void>?

    /// - Parameter requestLimit: from the connection or the last answer to the last byte of a request.
    init(endpoints: Endpoints, requestLimit: TimeAmount) {
        self.endpoints = endpoints
        self.requestLimit = requestLimit
    }

    func handlerAdded(context: ChannelHandlerContext) { self.arm(self.waitingSince + self.requestLimit, context) }

    func handlerRemoved(context: ChannelHandlerContext) { self.timer?.cancel() }

    /// One timer, which looks again when it fires too early instead of being moved with each request.
    private func arm(_ deadline: NIODeadline, _ context: ChannelHandlerContext) {
        self.timer = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) {
            switch self.state {
            case .idle, .receiving:
                let limit = self.waitingSince + self.requestLimit
                if NIODeadline.now() >= limit { return context.close(promise: nil) }
                self.arm(limit, context)
            case .answering: self.arm(.now() + self.requestLimit, context)
            case .closing: break
            }
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch (self.unwrapInboundIn(data), self.state) {
        case (.head(let head), .idle):
            if let length = head.headers.first(name: "content-length").flatMap({ Int($0) }), length > Self.bodyLimit {
                return self.refuseBody(head, context: context)
            }
            self.state = .receiving(head, ByteBuffer())
            if head.headers.contains(name: "expect") { self.proceed(head, context: context) }
        case (.body(var part), .receiving(let head, var body)):
            self.state = .answering
            guard body.readableBytes + part.readableBytes <= Self.bodyLimit else {
                return self.refuseBody(head, context: context)
            }
            body.writeBuffer(&part)
            self.state = .receiving(head, body)
        case (.end, .receiving(let head, let body)):
            self.state = .answering
            self.answer(head, body: body, context: context)
        case (.head, _), (.body, _), (.end, _): break
        }
    }

    /// Lets a client that asks first send its body. Source: RFC 9110 §10.1.1
    private func proceed(_ head: HTTPRequestHead, context: ChannelHandlerContext) {
        guard head.version == .http1_1, head.headers.first(name: "expect")?.lowercased() == "100-continue"
        else { return }
        let response = HTTPResponseHead(version: head.version, status: .continue)
        context.writeAndFlush(self.wrapOutboundOut(.head(response)), promise: nil)
    }

    private func refuseBody(_ head: HTTPRequestHead, context: ChannelHandlerContext) {
        let message = "the body may have \(Self.bodyLimit) bytes at most"
        self.refuse(self.endpoints.refusal(.payloadTooLarge, message), to: head, context: context)
    }

    private func refuse(_ answer: Answer, to head: HTTPRequestHead, context: ChannelHandlerContext) {
        self.state = .closing
        self.write(answer, to: head, keepAlive: false, closing: .output, context: context)
        self.timer?.cancel()
        self.timer = context.eventLoop.assumeIsolated().scheduleTask(in: Self.lingering) {
            context.close(promise: nil)
        }
    }

    private func answer(_ head: HTTPRequestHead, body: ByteBuffer, context: ChannelHandlerContext) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        self.endpoints.answer(head, body: body, on: context.eventLoop).whenSuccess { answer in
            let (handler, context) = bound.value
            let keepAlive = Self.goesOn(after: head)
            handler.state = keepAlive ? .idle : .closing
            handler.waitingSince = .now()
            handler.write(answer, to: head, keepAlive: keepAlive, context: context)
        }
    }

    /// Whether another request may follow on the connection.
    ///
    /// The decoder stops behind a request that asks for another protocol (`Upgrade: h2c` of curl and Java, CONNECT). We
    /// answer it in this one and close, since what comes next would never be read.
    private static func goesOn(after head: HTTPRequestHead) -> Bool {
        head.isKeepAlive && head.method != .CONNECT && !head.headers.contains(name: "upgrade")
    }

    /// - Parameter closing: what is closed behind the answer if no other request may follow.
    private func write(
        _ answer: Answer, to head: HTTPRequestHead, keepAlive: Bool, closing: CloseMode = .all,
        context: ChannelHandlerContext
    ) {
        guard context.channel.isActive else { return }
        var headers = answer.headers
        // A server that has a clock says what it shows (RFC 9110 §6.6.1).
        headers.replaceOrAdd(name: "date", value: HTTPDate.format(epochSeconds: Int64(Date().timeIntervalSince1970)))
        // 204 and 304 have no body, and no length of one (RFC 9110 §8.6).
        if answer.status != .noContent && answer.status != .notModified {
            headers.replaceOrAdd(name: "content-length", value: String(answer.contentLength))
        }
        if !keepAlive {
            headers.replaceOrAdd(name: "connection", value: "close")
        } else if head.version != .http1_1 {
            // A client of HTTP/1.0 that asked to stay must be told that it may. Source: RFC 9112 §C.2.2
            headers.replaceOrAdd(name: "connection", value: "keep-alive")
        }
        let response = HTTPResponseHead(version: head.version, status: answer.status, headers: headers)
        context.write(self.wrapOutboundOut(.head(response)), promise: nil)
        if head.method != .HEAD {
            for part in answer.body { context.write(self.wrapOutboundOut(.body(.byteBuffer(part))), promise: nil) }
        }
        guard !keepAlive else { return context.writeAndFlush(self.wrapOutboundOut(.end(nil)), promise: nil) }
        context.writeAndFlush(self.wrapOutboundOut(.end(nil))).assumeIsolated().whenComplete { _ in
            context.close(mode: closing, promise: nil)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is IdleStateHandler.IdleStateEvent { return context.close(promise: nil) }
        context.fireUserInboundEventTriggered(event)
    }

    /// Malformed HTTP is answered once. An error behind the last answer is none of the client's business any more.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard error is HTTPParserError else { return context.close(promise: nil) }
        switch self.state {
        case .idle, .receiving:
            // What was asked for is not known, so the answer is that to a GET.
            let head = HTTPRequestHead(version: .http1_1, method: .GET, uri: "/")
            let answer = self.endpoints.refusal(.badRequest, "the request is not well-formed HTTP/1.1")
            self.refuse(answer, to: head, context: context)
        case .answering, .closing: break
        }
    }
}
