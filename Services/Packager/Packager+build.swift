import Kafka
import Model
import Operations
import Packaging
import Redis
import ServiceLifecycle
import Store

extension Packager {
    /// The consumer group of all packagers.
    static let group = "waybill-packager"

    /// Makes the worker and what it works with.
    static func build(_ settings: PackagerSettings, _ environment: ServiceEnvironment) throws -> [any Service] {
        let common = environment.common
        let redis = RedisClient(common.redis, eventLoopGroup: environment.group)
        let producer = try KafkaProducer(environment.producing(within: common.shutdownLimit / 2))
        var workshops: [OrderTypeIdentifier: OrderWorkshop] = [:]
        for type in settings.brands.orderTypes {
            workshops[type] = settings.brands[type].map { OrderWorkshop($0, secrets: settings.secrets) }
        }
        let processor = ChangeProcessor(
            topics: common.topics, workshops: workshops,
            store: OrderStore(redis: redis), registrations: Registrations(redis: redis), producer: producer,
            metrics: PackagerMetrics(factory: environment.metrics), logger: environment.logger)
        let worker = try BatchWorker(
            group: Self.group, topics: [common.topics.orderChanges], environment: environment
        ) { records in
            try await processor.process(records)
        } onStopped: {
            await producer.close()
            await redis.close()
        }
        return [worker]
    }
}
