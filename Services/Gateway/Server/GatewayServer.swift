import Adoption
import Brands
import Cryptography
import Fetch
import HTTPServer
import Kafka
import Model
import Operations
import Redis
import ServiceLifecycle
import Store

/// The role for Wallet: its parts and their limits.
enum GatewayServer {
    /// Most bytes of cached assets.
    static let assetCacheBytes = 64 << 20
    /// The longest time that a registration waits for Kafka. A device does not wait forever, and a graceful stop waits
    /// for the request.
    static let deliveryLimit = Duration.seconds(5)

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
        let adoption = AdoptionTally(environment)
        let reader = PackageReader(redis: redis, readsMark: adoption != nil)
        let view = MaterializedView(redis: redis)
        let views = StaleReadGuard(view)
        let package = PackageEndpoint(
            reader: reader, views: views, tokens: settings.tokens, cache: AssetCache(limit: Self.assetCacheBytes),
            metrics: metrics, adoption: adoption)
        let link = LinkEndpoint(package: package, tokens: settings.tokens)
        let store = OrderStore(redis: redis)
        let mail = MailEndpoint(
            package: package, reader: reader, store: store, views: views, tokens: settings.tokens,
            brands: settings.brands, longestSeconds: settings.mailLinkSeconds)
        let registrations = RegistrationEndpoints(
            reader: reader, views: views,
            registrations: AdoptionTally.registrations(redis, adoption, isByCustomer: true),
            deviceOrders: DeviceOrders(redis: redis, memory: reader.memory),
            tokens: settings.tokens, producer: producer, topics: common.topics, metrics: metrics,
            deviceLimit: settings.deviceLimit)
        let compatibility = CompatibilityEndpoints(
            package: package, registrations: registrations, store: store,
            index: TokenIndex(redis: redis), brands: settings.brands)
        var onSpan: (@Sendable (TraceSpan) -> Void)?
        if let spans = environment.spans { onSpan = { spans.record($0) } }
        let endpoints = Endpoints(
            basePath: settings.basePath, brands: settings.brands, package: package,
            link: link, mail: mail, registrations: registrations,
            log: LogEndpoint(
                metrics: metrics, brands: settings.brands, logger: settings.logsDevices ? environment.logger : nil),
            metrics: metrics,
            logger: environment.logger, compatibility: settings.isCompatible ? compatibility : nil,
            onSpan: onSpan)
        let edge = TransportPolicy(settings.edge, environment)
        let server = HTTPListener(
            address: settings.listen, endpoints: endpoints, environment: environment, edge: edge,
            onStopped: {
                await producer.close()
                await redis.close()
            })
        let reloader = BrandReloader(settings.brands, tokens: settings.tokens, environment: environment)
        let monitor = RedisMonitor(redis, environment)
        let reporters = adoption.map { [AdoptionReporter($0, environment)] } ?? []
        return reporters + [reloader, server, monitor] + (edge.certificates.map { [$0] } ?? [])
    }
}
