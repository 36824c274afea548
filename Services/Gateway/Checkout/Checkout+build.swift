import Kafka
import Model
import Operations
import Packaging
import ServiceLifecycle

/// The checkout role: what it is built from.
enum Checkout {
    /// The time that a change waits for Kafka's acknowledgement at most.
    static let deliveryLimit = Duration.seconds(5)

    /// The role's demands on Kafka's topics.
    static func needs(_ topics: Topics) -> [KafkaTopicNeed] {
        [
            KafkaTopicNeed(
                topics.orderChanges, isWritten: true, messageBytes: 64 << 10, largestBytes: OrderChange.valueLimit)
        ]
    }

    /// Makes the server and what it works with.
    static func build(_ settings: CheckoutSettings, _ environment: ServiceEnvironment) throws -> [any Service] {
        let common = environment.common
        let producer = try KafkaProducer(
            environment.producing(within: Self.deliveryLimit), topics: [common.topics.orderChanges])
        let metrics = CheckoutMetrics(factory: environment.metrics)
        let merchants = try MerchantLibrary(
            directory: settings.merchants, loading: settings.loading, isStrict: false, logger: environment.logger)
        let publisher = ChangePublisher(
            producer: producer, topics: common.topics, brands: settings.brands, secrets: settings.secrets,
            metrics: metrics, logger: environment.logger)
        let responder = CheckoutResponder(
            merchants: merchants,
            details: OrderDetailsEndpoints(
                mint: OrderDetailsMint(secrets: settings.secrets, webServiceURL: settings.webServiceURL),
                publisher: publisher),
            metrics: metrics, logger: environment.logger)
        let edge = GatewayServer.edge(settings.edge, environment)
        let server = GatewayServer(
            address: settings.listen, endpoints: responder, environment: environment, edge: edge,
            onStopped: { await producer.close() })
        let reloader = BrandReloader(settings.brands, environment: environment)
        return [reloader, merchants, server] + (edge.certificates.map { [$0] } ?? [])
    }
}
