import APNS
import Cryptography
import Kafka
import Logging
import Model
import Operations
import Packaging
import Redis
import ServiceLifecycle
import Store

extension Pusher {
    /// The consumer group of all pushers.
    static let group = "waybill-pusher"

    /// Makes the worker and what it works with.
    static func build(_ settings: PusherSettings, _ environment: ServiceEnvironment) throws -> [any Service] {
        let common = environment.common
        let redis = RedisClient(common.redis, eventLoopGroup: environment.group)
        let producer = try KafkaProducer(environment.producing(within: common.shutdownLimit / 2))
        let metrics = PusherMetrics(factory: environment.metrics, host: "\(settings.endpoint)")
        let clients = try PushClients(settings.brands.brands) { type, push in
            let credential = metrics[type.rawValue]
            var configuration = APNSConfiguration()
            configuration.onEvent = { credential.happened($0) }
            return try APNSClient(
                endpoint: settings.endpoint, credential: APNSCredential(push), rootsPEM: settings.roots,
                proxy: settings.proxy, eventLoopGroup: environment.group, configuration: configuration)
        }
        var processor = PushProcessor(
            topics: common.topics, clients: [:], registrations: Registrations(redis: redis), producer: producer,
            metrics: metrics, logger: environment.logger)
        processor.view = ViewWatch(View(redis: redis))
        let worker = try BatchWorker(
            group: Self.group, topics: [common.topics.orders, common.topics.registrations], environment: environment
        ) { [processor] records in
            try await clients.with { current in
                var processor = processor
                processor.clients = current
                try await processor.process(records)
            }
        } onStopped: {
            await clients.close()
            await producer.close()
            await redis.close()
        }
        let reloader = BrandReloader(settings.brands, environment: environment) {
            [logger = environment.logger] brands in
            for (type, error) in await clients.update(brands) {
                logger.error(
                    "push credential cannot be used, the last one goes on working",
                    metadata: ["brand": "\(type)", "error": "\(error)"])
            }
        }
        return [reloader, CredentialGauges(metrics: metrics) { clients.named }, worker]
    }
}

extension APNSCredential {
    /// How a brand proves itself to APNs.
    init(_ authentication: PushAuthentication) throws {
        switch authentication {
        case .certificate(let chain, let key): self = .certificate(chainPEM: chain, keyPEM: key)
        case .token(let key, let keyIdentifier, let teamIdentifier):
            let key = try ES256Key(privateKeyPEM: key)
            self = .token(
                ProviderTokenSource(keyIdentifier: keyIdentifier, teamIdentifier: teamIdentifier) { try key.sign($0) })
        }
    }
}
