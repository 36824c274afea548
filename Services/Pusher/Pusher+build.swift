import APNS
import Cryptography
import Kafka
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
        var clients: [OrderTypeIdentifier: APNSClient] = [:]
        for type in settings.brands.orderTypes {
            guard let brand = settings.brands[type] else { continue }
            clients[type] = try APNSClient(
                endpoint: settings.endpoint, credential: APNSCredential(brand.push), rootsPEM: settings.roots,
                eventLoopGroup: environment.group)
        }
        let processor = PushProcessor(
            topics: common.topics, clients: clients, registrations: Registrations(redis: redis), producer: producer,
            metrics: PusherMetrics(factory: environment.metrics), logger: environment.logger)
        let worker = try BatchWorker(
            group: Self.group, topics: [common.topics.orders, common.topics.registrations], environment: environment
        ) { records in
            try await processor.process(records)
        } onStopped: { [clients] in
            for client in clients.values { await client.close() }
            await producer.close()
            await redis.close()
        }
        return [worker]
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
