import NIOCore
import NIOHTTP1

/// A request with the promise of its answer.
struct HTTPExchange: Sendable {
    let head: HTTPRequestHead
    let body: [UInt8]
    let promise: EventLoopPromise<HTTPResponse>
}

/// Runs one exchange after the other on a connection: writes the request, collects the answer, completes the promise.
///
/// Bounded: one exchange at a time, answers up to `bodyLimit`. Any end of the connection fails the promise.
final class HTTPExchangeHandler: ChannelDuplexHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundIn = HTTPExchange
    typealias OutboundOut = HTTPClientRequestPart

    /// Bytes; larger than every package (below 5 MB, Wallet Orders §2.1) and every page of the simulator's journal.
    static let bodyLimit = 16 << 20

    private var exchange: HTTPExchange?
    private var head: HTTPResponseHead?
    private var body: [UInt8] = []

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let exchange = self.unwrapOutboundIn(data)
        guard self.exchange == nil else {
            exchange.promise.fail(ToolError(.protocol, "sending a request: the connection is busy"))
            return
        }
        self.exchange = exchange
        context.write(self.wrapOutboundOut(.head(exchange.head)), promise: nil)
        if !exchange.body.isEmpty {
            context.write(self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: exchange.body)))), promise: nil)
        }
        context.write(self.wrapOutboundOut(.end(nil)), promise: promise)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        case .head(let head):
            // 1xx answers precede the real one (RFC 9110 §15.2).
            if head.status.code >= 200 || head.status.code == 101 { self.head = head }
        case .body(let buffer):
            guard self.body.count + buffer.readableBytes <= Self.bodyLimit else {
                self.fail(ToolError(.protocol, "reading an answer: more than \(Self.bodyLimit) bytes"))
                context.close(promise: nil)
                return
            }
            self.body.append(contentsOf: buffer.readableBytesView)
        case .end:
            guard let head = self.head else { return }
            let response = HTTPResponse(
                status: Int(head.status.code), headers: head.headers, body: self.body, isKeepAlive: head.isKeepAlive)
            let promise = self.exchange?.promise
            self.exchange = nil
            self.head = nil
            self.body = []
            promise?.succeed(response)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.fail(ToolError(.closed, "waiting for an answer: the connection was closed"))
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.fail(ToolError(.connection, "waiting for an answer: \(error)"))
        context.close(promise: nil)
    }

    private func fail(_ error: ToolError) {
        self.exchange?.promise.fail(error)
        self.exchange = nil
    }
}
