import Adoption
import Brands
import Foundation
import Kafka
import Logging
import Model
import NIOCore
import NIOPosix
import Operations
import Redis
import ServiceLifecycle
import ServiceLifecycleTestKit
import Store
import TestKit
import Testing
import Tokens

@testable import Gateway
@testable import HTTPServer

/// The real gateway with a real Redis and the mock broker, for one test.
struct GatewayFixture: WalletServer, Sendable {
    static let orderType = "order.com.example.shop"
    static let ownToken = "own-token-of-the-order"

    let port: Int
    let server: RedisServer
    let broker: KafkaBroker
    let redis: RedisClient
    let secrets: TokenSecrets
    let metrics: MetricsRegistry
    let readiness: Readiness
    let trigger: GracefulShutdownTestTrigger

    /// The brands, made once for all tests.
    static let brands = Result {
        let directory = try TemporaryDirectory("brands")
        let certificates = try DevelopmentCertificates.copy(to: directory.path("certificates"))
        try DevelopmentBrand.make(
            in: directory.path("brands/shop"), orderType: orderType, certificates: certificates)
        return try BrandLibrary(
            directory: directory.path("brands"), webServiceURL: "https://wallet.example/apple"
        ).brands
    }

    struct Options: Sendable {
        var holding = PackageEndpoint.Hold()
        var idleLimit = RequestLimits.idle
        var limits = GatewayLimits()
        /// The receiver of the gateway's log; nil discards it.
        var journal: LogJournal?
        /// Changes the transport policy in front of the endpoints.
        var edge: @Sendable (inout TransportPolicy) -> Void = { _ in }
        /// True to end the server by cancellation instead of a graceful shutdown.
        var isCancelled = false
        /// The longest time for a command of Redis: high, because a busy machine has stopped servers for seconds.
        var redisDeadline = Duration.seconds(20)
        /// The arguments with which Redis is started.
        var redisArguments: [String] = []
        /// True to start a cluster instead of a single server.
        var isCluster = false
        /// The most devices of one order.
        var deviceLimit = Registrations.deviceLimit
        /// True if Redis counts as having all orders.
        var isComplete = true
        /// True if the gateway has the routes of the compatible dialect.
        var isCompatible = false
        /// Counts adoption; nil: nothing does.
        var adoption: AdoptionTally?
        /// Receives the spans of fetches; nil if none are made.
        var onSpan: (@Sendable (TraceSpan) -> Void)?
    }

    /// Runs `body` while the gateway listens, then stops the gateway and waits until it ends.
    static func with(
        _ options: Options = Options(), _ body: @escaping @Sendable (GatewayFixture) async throws -> Void
    ) async throws {
        let server =
            options.isCluster
            ? try await RedisServer.startCluster(options.redisArguments)
            : try await RedisServer.start(options.redisArguments)
        let broker = try KafkaBroker(topics: [.init("waybill.registrations", partitions: 2)])
        let redis = try server.client(deadline: options.redisDeadline)
        if options.isComplete { try await Self.completeView(server) }
        let kafka = KafkaConfiguration(bootstrap: broker.bootstrap, properties: ["message.timeout.ms": "1500"])
        let producer = try KafkaProducer(kafka)
        let logger = Logger(label: "test") { _ in options.journal ?? SwiftLogNoOpLogHandler() as any LogHandler }
        let common = try CommonSettings(Settings(environment: [:]))
        let environment = ServiceEnvironment(
            common: common, group: .singleton, metrics: MetricsRegistry(),
            readiness: Readiness(conditions: HTTPListener.conditions), logger: logger)
        let metrics = GatewayMetrics(factory: environment.metrics)
        let reader = PackageReader(redis: redis, readsMark: options.adoption != nil)
        let views = StaleReadGuard(MaterializedView(redis: redis))
        let secrets = try TokenSecrets(file: Array("the first secret of the test\nthe second secret\n".utf8))
        let tokens = TokenAuthority(secrets)
        let package = PackageEndpoint(
            reader: reader, views: views, tokens: tokens, cache: AssetCache(limit: 1 << 20), metrics: metrics,
            adoption: options.adoption, holding: options.holding)
        let registrations = RegistrationEndpoints(
            reader: reader, views: views,
            registrations: AdoptionTally.registrations(redis, options.adoption, isByCustomer: true),
            deviceOrders: DeviceOrders(redis: redis, memory: reader.memory),
            tokens: tokens, producer: producer,
            topics: common.topics, metrics: metrics, deviceLimit: options.deviceLimit)
        let compatibility = CompatibilityEndpoints(
            package: package, registrations: registrations, store: OrderStore(redis: redis),
            index: TokenIndex(redis: redis), brands: BrandLibrary(try Self.brands.get()))
        let endpoints = Endpoints(
            basePath: "/apple", brands: BrandLibrary(try Self.brands.get()), package: package,
            link: LinkEndpoint(package: package, tokens: tokens),
            mail: MailEndpoint(
                package: package, reader: reader, store: OrderStore(redis: redis), views: views, tokens: tokens,
                brands: BrandLibrary(try Self.brands.get()), longestSeconds: 60 * 86_400),
            registrations: registrations,
            log: LogEndpoint(metrics: metrics, brands: BrandLibrary(try Self.brands.get()), logger: logger),
            metrics: metrics,
            logger: logger, limits: options.limits, compatibility: options.isCompatible ? compatibility : nil,
            onSpan: options.onSpan)
        var edge = TransportPolicy(metrics: TransportMetrics(factory: environment.metrics))
        edge.requestLimit = options.idleLimit
        options.edge(&edge)
        let (ports, continuation) = AsyncStream.makeStream(of: Int.self)
        let gateway = HTTPListener(
            address: ListenAddress(host: "127.0.0.1", port: 0), endpoints: endpoints, environment: environment,
            edge: edge, onStopped: {}, onListening: { continuation.yield($0) })
        func clean() async {
            await producer.close()
            await redis.close()
            await server.stop()
            broker.close()
        }
        do {
            try await testGracefulShutdown { trigger in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await gateway.run() }
                    guard let port = await ports.first(where: { _ in true }) else { throw CancellationError() }
                    do {
                        try await body(
                            GatewayFixture(
                                port: port, server: server, broker: broker, redis: redis, secrets: secrets,
                                metrics: environment.metrics, readiness: environment.readiness, trigger: trigger))
                    } catch {
                        trigger.triggerGracefulShutdown()
                        throw error
                    }
                    if options.isCancelled { group.cancelAll() } else { trigger.triggerGracefulShutdown() }
                    try await group.waitForAll()
                }
            }
        } catch {
            await clean()
            throw error
        }
        await clean()
    }

    /// Marks the view as complete, with a long deadline: the deadline of the test applies only from here on.
    private static func completeView(_ server: RedisServer) async throws {
        let redis = try server.client()
        let result: Result<Void, any Error>
        do { result = .success(try await redis.completeView()) } catch { result = .failure(error) }
        await redis.close()
        try result.get()
    }

    static func key(_ order: String) throws -> OrderKey { try OrderKey("\(orderType)/\(order)") }

    /// The parts of a package in these tests; the digests name assets that `put` stores.
    static let head = Array("PK head ".utf8) + Array(0...255)
    static let assets: [(digest: String, entry: [UInt8])] = [
        ("aa", Array("asset one\r\n\r\n".utf8)), ("bb", [0, 255]), ("cc", [UInt8](repeating: 9, count: 300_000)),
    ]
    static let certificates = (digest: "dd", entry: Array("certificates".utf8))
    static let tail = Array("tail".utf8)
    static var package: [UInt8] { assets.flatMap(\.entry) + head + certificates.entry + tail }

    /// Stores a version of an order as the packager does.
    func put(
        _ order: String, version: Int64 = 1, token: String = ownToken, modified: Int64 = 784_111_777,
        isRemoved: Bool = false, isPackaged: Bool = true, document: JSONObject = ["orderNumber": "1"]
    ) async throws {
        let store = OrderStore(redis: self.redis)
        let state = OrderState(
            key: try Self.key(order), document: OrderDocument(members: isRemoved ? [:] : document),
            token: try AuthenticationToken(token), version: version, modifiedEpochSeconds: modified + version - 1,
            isRemoved: isRemoved)
        try await store.putAssets(Self.assets + [Self.certificates])
        let package = OrderStore.StoredPackage(
            assets: Self.assets.map(\.digest), head: Self.head, certificates: Self.certificates.digest,
            tail: Self.tail, entityTag: "tag-\(version)")
        let revision = try await store.orders([state.key])[0].get()?.revision ?? 0
        let outcomes = try await store.write([
            .init(
                state: state, revision: revision,
                content: isRemoved ? .removal : .version(isPackaged ? package : nil))
        ])
        #expect(outcomes == [.written])
    }

    /// Returns the token of an order that has none of its own.
    func derived(_ order: String) throws -> String { self.secrets.token(for: try Self.key(order)).rawValue }
    var metricsText: String { self.metrics.text }
    /// The reasons why the gateway is not ready.
    var reasons: [String] { self.readiness.reasons }
    func stop() { self.trigger.triggerGracefulShutdown() }
    func registration(_ device: String, _ order: String) -> String { "\(self.list(device))/\(order)" }
}
