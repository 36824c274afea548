import Kafka
import Logging
import NIOCore
import NIOExtras
import NIOPosix
import Operations
import Packaging
import Redis
import ServiceLifecycle
import Store

/// Listens for Wallet until it is told to stop; then finishes the requests that are in hand.
final class GatewayServer: Service {
    static let listening = "listener"
    static let conditions = [listening]
    /// Most bytes of assets that are kept in memory.
    static let assetCacheBytes = 64 << 20
    /// How long a connection may stay without a complete request, or with nothing coming or going.
    static let idleLimit = TimeAmount.seconds(75)
    /// How long a registration waits for Kafka at most. A device does not wait for ever, and a
    /// graceful stop waits for the request.
    static let deliveryLimit = Duration.seconds(5)

    private let address: ListenAddress
    private let endpoints: Endpoints
    private let environment: ServiceEnvironment
    /// Called when the last request is answered.
    private let onStopped: @Sendable () async -> Void
    /// Called with the port once the server listens.
    private let onListening: @Sendable (Int) -> Void
    private let idleLimit: TimeAmount

    init(
        address: ListenAddress, endpoints: Endpoints, environment: ServiceEnvironment,
        idleLimit: TimeAmount = GatewayServer.idleLimit,
        onStopped: @escaping @Sendable () async -> Void,
        onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.address = address
        self.endpoints = endpoints
        self.environment = environment
        self.idleLimit = idleLimit
        self.onStopped = onStopped
        self.onListening = onListening
    }

    func run() async throws {
        let quiescing = ServerQuiescingHelper(group: self.environment.group)
        let channel = try await ServerBootstrap(group: self.environment.group)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        quiescing.makeServerChannelHandler(channel: channel))
                }
            }
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { [endpoints, idleLimit] channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    let handler = ConnectionHandler(
                        endpoints: endpoints, client: ClientAddress(channel.remoteAddress), requestLimit: idleLimit)
                    try pipeline.addHandler(handler)
                }
            }
            .bind(host: self.address.host, port: self.address.port).get()
        let logger = self.environment.logger
        logger.info("listening", metadata: ["address": "\(channel.localAddress?.description ?? "")"])
        self.environment.readiness.met(Self.listening)
        self.onListening(channel.localAddress?.port ?? 0)
        let quiet = channel.eventLoop.makePromise(of: Void.self)
        let stopped = channel.eventLoop.makePromise(of: Void.self)
        quiet.futureResult.cascade(to: stopped)
        await withTaskCancellationOrGracefulShutdownHandler {
            // A client may keep a request in hand for ever, so a cancelled task does not wait for it.
            await withTaskCancellationHandler {
                _ = try? await stopped.futureResult.get()
            } onCancel: {
                stopped.fail(CancellationError())
            }
        } onCancelOrGracefulShutdown: {
            self.environment.readiness.unmet(Self.listening, "stopping")
            quiescing.initiateShutdown(promise: quiet)
        }
        await self.onStopped()
    }

    /// Makes the server and what it works with.
    static func build(_ settings: GatewaySettings, _ environment: ServiceEnvironment) async throws -> [any Service] {
        let common = environment.common
        let redis = RedisClient(common.redis, eventLoopGroup: environment.group)
        let producer = try KafkaProducer(environment.producing(within: Self.deliveryLimit))
        let metrics = GatewayMetrics(factory: environment.metrics)
        let reader = PackageReader(redis: redis)
        let package = PackageEndpoint(
            reader: reader, secrets: settings.secrets, cache: AssetCache(limit: Self.assetCacheBytes), metrics: metrics)
        let endpoints = Endpoints(
            basePath: settings.basePath, brands: settings.brands, package: package,
            link: LinkEndpoint(package: package, secrets: settings.secrets),
            registrations: RegistrationEndpoints(
                reader: reader, registrations: Registrations(redis: redis), deviceOrders: DeviceOrders(redis: redis),
                producer: producer, topics: common.topics),
            log: LogEndpoint(metrics: metrics, logger: environment.logger), metrics: metrics,
            logger: environment.logger)
        let server = GatewayServer(address: settings.listen, endpoints: endpoints, environment: environment) {
            await producer.close()
            await redis.close()
        }
        return [BrandReloader(settings.brands, environment: environment), server]
    }
}
