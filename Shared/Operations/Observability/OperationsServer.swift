public import Logging
import NIOCore
import NIOHTTP1
public import NIOPosix
public import ServiceLifecycle

/// A server that answers `/livez`, `/readyz` and `/metrics` on a separate port, for operators and their tools.
///
/// A connection has one request, whose body is not read, and ends with its answer, so nobody can have more made than
/// they read. It has a minute in all; with 64 open the oldest is closed for the next, so a probe can always connect.
/// The reasons of `/readyz` contain addresses of Kafka and Redis and are returned to this machine alone; other clients
/// get the names of the unmet conditions.
public final class OperationsServer: Service {
    /// The condition of readiness that is met once it listens. It is never seen: there is no answer before.
    static let listening = "operations-listener"
    /// Most simultaneous connections.
    static let connectionLimit = 64
    /// The longest time of a connection, in which its request arrives and its answer is read.
    static let connectionTime = TimeAmount.seconds(60)
    /// The time after the answer for which further input is ignored, so that the client can read the answer: a socket
    /// that is closed while bytes wait in it is reset.
    static let lingering = TimeAmount.seconds(2)

    private let address: ListenAddress
    private let readiness: Readiness
    private let liveness: Liveness
    private let metrics: MetricsRegistry
    private let group: MultiThreadedEventLoopGroup
    private let logger: Logger
    private let onListening: @Sendable (Int) -> Void

    /// - Parameter onListening: called with the port once the server listens.
    public init(
        address: ListenAddress, readiness: Readiness, liveness: Liveness = Liveness(), metrics: MetricsRegistry,
        group: MultiThreadedEventLoopGroup, logger: Logger,
        onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.address = address
        self.readiness = readiness
        self.liveness = liveness
        self.metrics = metrics
        self.group = group
        self.logger = logger
        self.onListening = onListening
    }

    public func run() async throws {
        let channel = try await ServerBootstrap(group: self.group)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(OldestGivesWay(limit: Self.connectionLimit))
                }
            }
            .childChannelInitializer { [readiness, liveness, metrics] channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.configureHTTPServerPipeline(
                        withPipeliningAssistance: false, withErrorHandling: true)
                    try pipeline.addHandler(
                        OperationsHandler(readiness: readiness, liveness: liveness, metrics: metrics))
                }
            }
            .listen(on: self.address)
        self.logger.info(
            "operations endpoint listening", metadata: ["address": "\(channel.localAddress?.description ?? "")"])
        self.readiness.met(Self.listening)
        self.onListening(channel.localAddress?.port ?? 0)
        // It continues to answer while the services above it stop, so that /readyz can report it; it is the last to
        // end. Cancellation ends it as well: when another service failed, the process must not keep running for it.
        await withTaskCancellationOrGracefulShutdownHandler {
            _ = try? await channel.closeFuture.get()
        } onCancelOrGracefulShutdown: {
            channel.close(promise: nil)
        }
    }
}

/// A handler that keeps the number of connections within a limit by closing the oldest.
private final class OldestGivesWay: ChannelInboundHandler {
    typealias InboundIn = any Channel

    private let limit: Int
    private var open: [any Channel] = []

    init(limit: Int) { self.limit = limit }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let channel = self.unwrapInboundIn(data)
        if self.open.count >= self.limit { self.open.removeFirst().close(promise: nil) }
        self.open.append(channel)
        channel.closeFuture.hop(to: context.eventLoop).assumeIsolated().whenComplete { _ in
            self.open.removeAll { $0 === channel }
        }
        context.fireChannelRead(data)
    }
}

/// One connection to the operations endpoint, with one request.
final class OperationsHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let readiness: Readiness
    private let liveness: Liveness
    private let metrics: MetricsRegistry
    private var head: HTTPRequestHead?
    private var isAnswered = false
    /// Closes the connection.
    private var end: Scheduled<Void>?

    init(readiness: Readiness, liveness: Liveness = Liveness(), metrics: MetricsRegistry) {
        self.readiness = readiness
        self.liveness = liveness
        self.metrics = metrics
    }

    func handlerAdded(context: ChannelHandlerContext) { self.close(context, in: OperationsServer.connectionTime) }

    func handlerRemoved(context: ChannelHandlerContext) { self.end?.cancel() }

    private func close(_ context: ChannelHandlerContext, in time: TimeAmount) {
        self.end?.cancel()
        self.end = context.eventLoop.assumeIsolated().scheduleTask(in: time) { context.close(promise: nil) }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !self.isAnswered else { return }
        switch self.unwrapInboundIn(data) {
        case .head(let head): self.head = head
        case .body: break
        case .end:
            guard let head = self.head else { return }
            self.isAnswered = true
            self.answer(head, context: context)
        }
    }

    private func answer(_ head: HTTPRequestHead, context: ChannelHandlerContext) {
        let isLocal = context.channel.remoteAddress.map(Self.isLoopback) ?? false
        let (status, body) = self.content(head, isLocal: isLocal)
        var headers: HTTPHeaders = [
            "content-type": "text/plain; version=0.0.4; charset=utf-8", "content-length": String(body.utf8.count),
            "connection": "close",
        ]
        if status == .methodNotAllowed { headers.add(name: "allow", value: "GET, HEAD") }
        let response = HTTPResponseHead(version: head.version, status: status, headers: headers)
        context.write(self.wrapOutboundOut(.head(response)), promise: nil)
        if head.method != .HEAD {
            context.write(self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: body)))), promise: nil)
        }
        context.writeAndFlush(self.wrapOutboundOut(.end(nil))).assumeIsolated().whenComplete { _ in
            context.close(mode: .output, promise: nil)
            self.close(context, in: OperationsServer.lingering)
        }
    }

    /// Returns true if an address belongs to this machine.
    private static func isLoopback(_ address: SocketAddress) -> Bool {
        guard let text = address.ipAddress else { return true }
        return text == "::1" || text.hasPrefix("127.") || text.hasPrefix("::ffff:127.")
    }

    private func content(_ head: HTTPRequestHead, isLocal: Bool) -> (HTTPResponseStatus, String) {
        guard head.method == .GET || head.method == .HEAD else { return (.methodNotAllowed, "use GET\n") }
        switch head.uri.prefix(while: { $0 != "?" }) {
        case "/livez":
            let faults = self.liveness.faults()
            let lines = faults.isEmpty ? ["alive"] : faults
            return (faults.isEmpty ? .ok : .serviceUnavailable, lines.map { "\($0)\n" }.joined())
        case "/readyz":
            let reasons = isLocal ? self.readiness.reasons : self.readiness.missingConditions
            let lines = (reasons.isEmpty ? ["ready"] : reasons) + (isLocal ? self.readiness.remarks : [])
            return (reasons.isEmpty ? .ok : .serviceUnavailable, lines.map { "\($0)\n" }.joined())
        case "/metrics": return (.ok, self.metrics.text + ProcessMetrics().text)
        default: return (.notFound, "/livez, /readyz and /metrics are here\n")
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
