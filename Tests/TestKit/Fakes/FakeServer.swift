import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization

/// An HTTP/1.1 server for fakes of external services: one function answers, correctly or with a fault.
///
/// Bounded: bodies up to `bodyLimit`, beyond which the answer is 413; one request at a time on a connection.
public final class FakeServer: Sendable {
    /// The server's certificate, and optionally the roots of client certificates.
    public struct TLS: Sendable {
        /// PEM file: certificate and intermediates.
        public var certificate: String
        /// PEM file.
        public var key: String
        /// PEM file with the roots of client certificates, which are then required; nil requests none.
        public var clientRoots: String?

        public init(certificate: String, key: String, clientRoots: String? = nil) {
            self.certificate = certificate
            self.key = key
            self.clientRoots = clientRoots
        }
    }

    /// A request as received.
    public struct Request: Sendable {
        public var method: String
        /// Path without the query, not decoded.
        public var path: String
        public var query: String
        /// Names in lower case.
        public var headers: [(name: String, value: String)]
        public var body: [UInt8]
        /// DER of the client's certificate; nil without one.
        public var clientCertificate: [UInt8]?

        public func header(_ name: String) -> String? { self.headers.first { $0.name == name }?.value }
    }

    /// A complete answer.
    public struct Response: Sendable {
        public var status: Int
        public var headers: [(String, String)]
        public var body: [UInt8]

        public init(_ status: Int, headers: [(String, String)] = [], body: [UInt8] = []) {
            self.status = status
            self.headers = headers
            self.body = body
        }

        /// Returns an answer with JSON that must not be cached.
        public static func json(_ status: Int, _ text: String) -> Response {
            Response(
                status, headers: [("content-type", "application/json"), ("cache-control", "no-store")],
                body: Array(text.utf8))
        }
    }

    /// An answer, or none.
    public enum Answer: Sendable {
        case response(Response)
        /// The head and half of the body, then the end of the connection.
        case cut(Response)
        /// The end of the connection, without a byte.
        case closed
    }

    public typealias Handler = @Sendable (Request) async -> Answer

    public static let bodyLimit = 2 << 20

    /// The port.
    public let port: Int
    private let channel: any Channel
    private let connections: FakeConnections

    private init(port: Int, channel: any Channel, connections: FakeConnections) {
        self.port = port
        self.channel = channel
        self.connections = connections
    }

    /// - Parameter port: 0 chooses a free one.
    public static func start(
        host: String = "127.0.0.1", port: Int = 0, tls: TLS? = nil, bodyLimit: Int = FakeServer.bodyLimit,
        handler: @escaping Handler
    ) async throws -> FakeServer {
        try TestServers.use("HTTP server")
        let context = try tls.map(Self.context)
        let connections = FakeConnections()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                connections.add(channel)
                return channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    if let context { try pipeline.addHandler(NIOSSLServerHandler(context: context)) }
                    try pipeline.configureHTTPServerPipeline()
                    try pipeline.addHandler(FakeServerHandler(handler, bodyLimit: bodyLimit))
                }
            }
            .bind(host: host, port: port).get()
        return FakeServer(port: channel.localAddress?.port ?? port, channel: channel, connections: connections)
    }

    /// Closes the port and every connection.
    public func stop() async {
        try? await self.channel.close()
        self.connections.closeAll()
    }

    private static func context(_ tls: TLS) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(tls.certificate).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: tls.key, format: .pem)))
        configuration.minimumTLSVersion = .tlsv12
        if let roots = tls.clientRoots {
            configuration.certificateVerification = .noHostnameVerification
            configuration.trustRoots = .file(roots)
        }
        return try NIOSSLContext(configuration: configuration)
    }
}

/// The open connections of a server.
private final class FakeConnections: Sendable {
    private let channels = Mutex<[ObjectIdentifier: any Channel]>([:])

    func add(_ channel: any Channel) {
        let name = ObjectIdentifier(channel)
        self.channels.withLock { $0[name] = channel }
        channel.closeFuture.whenComplete { _ in _ = self.channels.withLock { $0.removeValue(forKey: name) } }
    }

    func closeAll() {
        for channel in self.channels.withLock({ Array($0.values) }) { channel.close(promise: nil) }
    }
}

/// The handler of a connection: collects a request, calls the function, writes the answer.
private final class FakeServerHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let handler: FakeServer.Handler
    private var head: HTTPRequestHead?
    private var body: [UInt8] = []
    private var isTooLarge = false

    private let bodyLimit: Int

    init(_ handler: @escaping FakeServer.Handler, bodyLimit: Int) {
        self.handler = handler
        self.bodyLimit = bodyLimit
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            self.body = []
            self.isTooLarge = false
        case .body(let buffer):
            self.isTooLarge = self.isTooLarge || self.body.count + buffer.readableBytes > self.bodyLimit
            if !self.isTooLarge { self.body.append(contentsOf: buffer.readableBytesView) }
        case .end:
            guard let head = self.head else { return }
            self.head = nil
            if self.isTooLarge {
                self.respond(.json(413, #"{"error":{"message":"the body is too large"}}"#), head, context)
            } else {
                self.answer(head, context)
            }
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func answer(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        let parts = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let certificate = try? context.pipeline.syncOperations.nioSSL_peerCertificate()?.toDERBytes()
        let request = FakeServer.Request(
            method: head.method.rawValue, path: String(parts.first ?? ""),
            query: parts.count > 1 ? String(parts[1]) : "",
            headers: head.headers.map { (name: $0.name.lowercased(), value: $0.value) }, body: self.body,
            clientCertificate: certificate)
        self.body = []
        let promise = context.eventLoop.makePromise(of: FakeServer.Answer.self)
        promise.completeWithTask { [handler] in await handler(request) }
        promise.futureResult.assumeIsolated().whenSuccess { answer in
            guard context.channel.isActive else { return }
            switch answer {
            case .response(let response): self.respond(response, head, context)
            case .cut(let response): self.respond(response, head, context, bytes: response.body.count / 2)
            case .closed: context.close(promise: nil)
            }
        }
    }

    /// - Parameter bytes: how much of the body is sent before the connection closes; nil sends the whole body.
    private func respond(
        _ response: FakeServer.Response, _ head: HTTPRequestHead, _ context: ChannelHandlerContext, bytes: Int? = nil
    ) {
        let isWhole = bytes == nil
        let staysOpen = head.isKeepAlive && isWhole
        var headers = HTTPHeaders(response.headers)
        if response.status != 204 && response.status != 304 {
            headers.replaceOrAdd(name: "content-length", value: String(response.body.count))
        }
        headers.replaceOrAdd(name: "connection", value: staysOpen ? "keep-alive" : "close")
        let status = HTTPResponseStatus(statusCode: response.status)
        context.write(
            self.wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: status, headers: headers))),
            promise: nil)
        if head.method != .HEAD {
            let body = ByteBuffer(bytes: response.body.prefix(bytes ?? response.body.count))
            context.write(self.wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
        }
        guard isWhole else {
            context.flush()
            context.close(promise: nil)
            return
        }
        let written = context.writeAndFlush(self.wrapOutboundOut(.end(nil)))
        if !staysOpen { written.assumeIsolated().whenComplete { _ in context.close(promise: nil) } }
    }
}
