import NIOCore
import NIOHTTP1

/// One connection from a client: gathers a request, has it answered, writes the answer.
///
/// `configureHTTPServerPipeline` stands in front and lets one request through at a time. The body is bounded; what is
/// more is answered 413 and the connection closed.
final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    /// Most bytes of a request's body. A registration has some hundred, a log some thousand.
    static let bodyLimit = 64 << 10

    private enum State {
        case idle
        case receiving(HTTPRequestHead, ByteBuffer)
        /// The answer is on its way or the rest of a refused request is passed over.
        case answering
    }

    private let endpoints: Endpoints
    private var state = State.idle

    init(endpoints: Endpoints) { self.endpoints = endpoints }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch (self.unwrapInboundIn(data), self.state) {
        case (.head(let head), _):
            if let length = head.headers.first(name: "content-length").flatMap({ Int($0) }), length > Self.bodyLimit {
                return self.refuse(head, context: context)
            }
            self.state = .receiving(head, ByteBuffer())
        case (.body(var part), .receiving(let head, var body)):
            self.state = .answering
            guard body.readableBytes + part.readableBytes <= Self.bodyLimit else {
                return self.refuse(head, context: context)
            }
            body.writeBuffer(&part)
            self.state = .receiving(head, body)
        case (.end, .receiving(let head, let body)):
            self.state = .answering
            self.answer(head, body: body, context: context)
        case (.body, _), (.end, _): break
        }
    }

    private func refuse(_ head: HTTPRequestHead, context: ChannelHandlerContext) {
        self.state = .answering
        let answer = Answer.failure(.payloadTooLarge, "the body may have \(Self.bodyLimit) bytes at most")
        self.write(answer, to: head, keepAlive: false, context: context)
    }

    private func answer(_ head: HTTPRequestHead, body: ByteBuffer, context: ChannelHandlerContext) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        self.endpoints.answer(head, body: body, on: context.eventLoop).whenSuccess { answer in
            let (handler, context) = bound.value
            handler.state = .idle
            handler.write(answer, to: head, keepAlive: head.isKeepAlive, context: context)
        }
    }

    private func write(_ answer: Answer, to head: HTTPRequestHead, keepAlive: Bool, context: ChannelHandlerContext) {
        guard context.channel.isActive else { return }
        var headers = answer.headers
        // 204 and 304 have no body, and no length of one (RFC 9110 §8.6).
        if answer.status != .noContent && answer.status != .notModified {
            headers.replaceOrAdd(name: "content-length", value: String(answer.contentLength))
        }
        if !keepAlive { headers.replaceOrAdd(name: "connection", value: "close") }
        let response = HTTPResponseHead(version: head.version, status: answer.status, headers: headers)
        context.write(self.wrapOutboundOut(.head(response)), promise: nil)
        if head.method != .HEAD {
            for part in answer.body { context.write(self.wrapOutboundOut(.body(.byteBuffer(part))), promise: nil) }
        }
        let done = context.writeAndFlush(self.wrapOutboundOut(.end(nil)))
        if !keepAlive {
            let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
            done.whenComplete { _ in bound.value.close(promise: nil) }
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is IdleStateHandler.IdleStateEvent { return context.close(promise: nil) }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
