import Brands
import Cryptography
import Fetch
import Kafka
import Logging
import Model
import NIOCore
import NIOPosix
import Operations
import Redis
import ServiceLifecycle
import Store
import Synchronization

/// Listens for Wallet until it is stopped; then lets clients go elsewhere, and finishes the requests in progress.
final class GatewayServer: Service {
    static let listening = WorkerCondition.listener
    static let conditions = [listening]
    /// The name in `/readyz` of the condition that the server was told to stop.
    static let stopping = "stopping"
    /// Most bytes of cached assets.
    static let assetCacheBytes = 64 << 20
    /// The longest time that a registration waits for Kafka. A device does not wait forever, and a graceful stop waits
    /// for the request.
    static let deliveryLimit = Duration.seconds(5)
    /// The pause in accepting connections after the system had no file or no memory for one.
    static let acceptPause = TimeAmount.milliseconds(100)

    private let address: ListenAddress
    private let endpoints: any Responder
    private let environment: ServiceEnvironment
    /// Called when the last request is answered.
    private let onStopped: @Sendable () async -> Void
    /// Called with the port once the server listens.
    private let onListening: @Sendable (Int) -> Void
    private let edge: TransportPolicy

    init(
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

    func run() async throws {
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

extension GatewayServer {
    /// The version of the program in all its roles.
    static let version = ProgramVersion(
        "waybill-gateway",
        libraries: [
            ("librdkafka", librdkafkaVersion()), ("hiredis", hiredisVersion()), ("OpenSSL", openSSLVersion()),
            ("libcurl", curlVersion()),
        ])

    /// Returns the gateway's requirements on Kafka's topics. A registration takes a few hundred bytes.
    static func needs(_ topics: Topics) -> [KafkaTopicNeed] {
        [KafkaTopicNeed(topics.registrations, isWritten: true, isCompacted: true, messageBytes: 4096)]
    }

    /// Makes the server and its parts.
    static func build(_ settings: GatewaySettings, _ environment: ServiceEnvironment) async throws -> [any Service] {
        let common = environment.common
        let redis = RedisClient(environment.redis, eventLoopGroup: environment.group)
        let producer = try KafkaProducer(
            environment.producing(within: Self.deliveryLimit), topics: [common.topics.registrations])
        let metrics = GatewayMetrics(factory: environment.metrics)
        let reader = PackageReader(redis: redis)
        let view = MaterializedView(redis: redis)
        let views = StaleReadGuard(view)
        let package = PackageEndpoint(
            reader: reader, views: views, tokens: settings.tokens, cache: AssetCache(limit: Self.assetCacheBytes),
            metrics: metrics)
        let link = LinkEndpoint(package: package, tokens: settings.tokens)
        let registrations = RegistrationEndpoints(
            reader: reader, views: views, registrations: Registrations(redis: redis),
            deviceOrders: DeviceOrders(redis: redis, memory: reader.memory),
            tokens: settings.tokens, producer: producer, topics: common.topics, metrics: metrics,
            deviceLimit: settings.deviceLimit)
        let compatibility = CompatibilityEndpoints(
            package: package, registrations: registrations, store: OrderStore(redis: redis),
            index: TokenIndex(redis: redis), brands: settings.brands)
        let endpoints = Endpoints(
            basePath: settings.basePath, brands: settings.brands, package: package,
            link: link, registrations: registrations,
            log: LogEndpoint(metrics: metrics, logger: settings.logsDevices ? environment.logger : nil),
            metrics: metrics,
            logger: environment.logger, compatibility: settings.isCompatible ? compatibility : nil)
        let edge = Self.edge(settings.edge, environment)
        let server = GatewayServer(
            address: settings.listen, endpoints: endpoints, environment: environment, edge: edge,
            onStopped: {
                await producer.close()
                await redis.close()
            })
        let reloader = BrandReloader(settings.brands, tokens: settings.tokens, environment: environment)
        let monitor = RedisMonitor(redis, environment)
        return [reloader, server, monitor] + (edge.certificates.map { [$0] } ?? [])
    }

    static func edge(_ settings: TransportSettings, _ environment: ServiceEnvironment) -> TransportPolicy {
        var edge = TransportPolicy(metrics: TransportMetrics(factory: environment.metrics))
        let wished = settings.limits.total
        let fitting = OpenFiles.connections(wished: wished, files: OpenFiles.raiseLimit())
        if fitting < wished {
            environment.logger.warning(
                "the limit of open files allows fewer connections than configured",
                metadata: ["connections": "\(fitting)", "configured": "\(wished)"])
        }
        edge.limits = ConnectionLimits(total: fitting, perAddress: settings.limits.perAddress)
        edge.proxies = settings.proxies
        edge.drain.most = settings.drain
        edge.certificates = settings.tls.map { files, certificate in
            CertificateReload(
                files: files, certificate: certificate, metrics: edge.metrics, logger: environment.logger)
        }
        return edge
    }
}
