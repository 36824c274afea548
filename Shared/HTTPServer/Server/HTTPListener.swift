import Logging
import NIOCore
import NIOPosix
public import Operations
public import ServiceLifecycle
import Synchronization

/// Listens for clients until it is stopped; then lets clients go elsewhere, and finishes the requests in progress.
public final class HTTPListener: Service {
    static let listening = WorkerCondition.listener
    /// The conditions of readiness that it meets.
    public static let conditions = [listening]
    /// The name in `/readyz` of the condition that the server was told to stop.
    static let stopping = "stopping"
    /// The pause in accepting connections after the system had no file or no memory for one.
    static let acceptPause = TimeAmount.milliseconds(100)
    /// The most bytes of one read. A connection keeps buffers of that size for as long as it is open.
    static let readBytes = 16 << 10

    private let address: ListenAddress
    private let endpoints: any Responder
    private let environment: ServiceEnvironment
    /// Called when the last request is answered.
    private let onStopped: @Sendable () async -> Void
    /// Called with the port once the server listens.
    private let onListening: @Sendable (Int) -> Void
    private let edge: TransportPolicy

    /// - Parameters:
    ///   - endpoints: answers the requests.
    ///   - onStopped: called when the last request is answered.
    ///   - onListening: called with the port once the server listens.
    public init(
        address: ListenAddress, endpoints: any Responder, environment: ServiceEnvironment,
        edge: TransportPolicy,
        onStopped: @escaping @Sendable () async -> Void,
        onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.address = address
        self.endpoints = endpoints
        self.environment = environment
        self.edge = edge
        self.onStopped = onStopped
        self.onListening = onListening
    }

    /// Runs until it is told to stop, or the system closes the socket.
    public func run() async throws {
        let gate = self.edge.gate()
        let pipelined = Dictionary(
            uniqueKeysWithValues: self.environment.group.makeIterator().map {
                (ObjectIdentifier($0), PipelinedRequests($0))
            })
        let channel = try await ServerBootstrap(group: self.environment.group)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(AcceptBackoffHandler { _ in Self.acceptPause })
                    try pipeline.addHandler(gate.handler())
                }
            }
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelOption(
                .recvAllocator,
                value: AdaptiveRecvByteBufferAllocator(minimum: 64, initial: 2048, maximum: Self.readBytes)
            )
            .childChannelInitializer { [endpoints, edge] channel in
                channel.eventLoop.makeCompletedFuture {
                    guard let slot = gate.slot(of: channel),
                        let pipelined = pipelined[ObjectIdentifier(channel.eventLoop)]
                    else { throw ChannelError.ioOnClosedChannel }
                    try edge.setUp(channel, slot, endpoints, pipelined)
                }
            }
            .listen(on: self.address)
        let logger = self.environment.logger
        logger.info("listening", metadata: ["address": "\(channel.localAddress?.description ?? "")"])
        self.environment.readiness.met(Self.listening)
        self.onListening(channel.localAddress?.port ?? 0)
        let stopped = channel.eventLoop.makePromise(of: Void.self)
        let isStopping = Atomic(false)
        channel.closeFuture.whenComplete { _ in
            // The listening socket has closed unintentionally: the service must end rather than run without one.
            if !isStopping.load(ordering: .acquiring) { stopped.fail(ListenerClosed()) }
        }
        let failure: ListenerClosed? = await withGracefulShutdownHandler {
            // A client may keep a request open forever, so a cancelled task does not wait for it.
            await withTaskCancellationHandler {
                do {
                    try await stopped.futureResult.get()
                    return nil
                } catch {
                    return error as? ListenerClosed
                }
            } onCancel: {
                isStopping.store(true, ordering: .releasing)
                self.environment.readiness.unmet(Self.stopping, "cancelled")
                _ = gate.stop(channel)
                stopped.fail(CancellationError())
            }
        } onGracefulShutdown: {
            isStopping.store(true, ordering: .releasing)
            self.environment.readiness.unmet(Self.stopping, "connections end with their next answer")
            gate.drain(channel, self.edge.drain).cascade(to: stopped)
        }
        await self.onStopped()
        if let failure { throw failure }
    }

    /// The listening socket was closed by an error of the system.
    struct ListenerClosed: Error, CustomStringConvertible {
        let description = "listening for clients: the system closed the socket"
    }
}
