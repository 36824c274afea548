import APNS
import Foundation
import Kafka
import Logging
import Model
import NIOCore
import Operations
import Packaging
import Redis
import ServiceLifecycle
import Store
import Synchronization

extension Pusher {
    /// The consumer group of all pushers, for the default prefix of topics: see `Topics.group`.
    static let group = "waybill-pusher"

    /// The pusher's demands on Kafka's topics. A registration takes some hundred bytes, a letter some thousand.
    static func needs(_ topics: Topics) -> [KafkaTopicNeed] {
        [
            KafkaTopicNeed(topics.orders, isRead: true, isCompacted: true),
            KafkaTopicNeed(
                topics.registrations, isRead: true, isWritten: true, isCompacted: true, messageBytes: 4096),
            KafkaTopicNeed(topics.deadLetters, isWritten: true, messageBytes: 65_536),
        ]
    }

    /// Makes the worker and what it works with.
    ///
    /// - Parameter limits: others than those of the settings; for tests.
    static func build(
        _ settings: PusherSettings, _ environment: ServiceEnvironment, limits: PushLimits? = nil
    ) throws -> [any Service] {
        let common = environment.common
        let redis = RedisClient(common.redis, eventLoopGroup: environment.group)
        let producer = try KafkaProducer(
            environment.producing(within: common.shutdownLimit / 4),
            topics: [common.topics.registrations, common.topics.deadLetters])
        let limits = limits ?? PushLimits(settings)
        let metrics = PusherMetrics(factory: environment.metrics, host: "\(settings.endpoint)")
        let journal = PushJournal(logger: environment.logger, readiness: environment.readiness)
        // The consumer asks the desk, and the desk tells the consumer.
        let finished = LateConsumer()
        let dispatch = PushDispatch(
            limits: limits, wallClock: { Int64(Date().timeIntervalSince1970 * 1000) },
            onFinished: { finished.finish($0) }, onChange: { journal.changed("\($0)", $1) })
        let parking = PushParking(limits: limits)
        let group = common.topics.group(of: Self.group)
        let consumer = try KafkaConsumer(
            environment.joining, group: group, topics: [common.topics.orders, common.topics.registrations],
            instance: common.instance(of: group), onLeaving: { dispatch.drop($0) + parking.drop($0) })
        finished.consumer.withLock { $0 = consumer }
        let view = ViewWatch(View(redis: redis))
        let registrations = Registrations(redis: redis)
        let tokens = ProviderTokenSources()
        let clients = PushClients(settings.brands.brands, dispatch: dispatch, onRenewed: journal.renewed) {
            type, push, onReplies in
            let credential = metrics[type.rawValue]
            var configuration = APNSConfiguration()
            configuration.onEvent = { event in
                credential.happened(event)
                if event == .connected { dispatch.connected(type) }
            }
            configuration.closeTimeout = .milliseconds(Int64(common.shutdownLimit / .milliseconds(1)) * 2 / 5)
            configuration.queueLimit = limits.inFlight
            configuration.connections = settings.connections
            return try APNSClient(
                endpoint: settings.endpoint, credential: APNSCredential(push, tokens), rootsPEM: settings.roots,
                proxy: settings.proxy, eventLoopGroup: environment.group, configuration: configuration,
                onReplies: { replies in
                    credential.answered(replies)
                    onReplies(replies)
                })
        }
        let errands = PushErrands(
            queue: dispatch.errands,
            retirement: Retirement(
                topics: common.topics, registrations: registrations, view: view, producer: producer),
            topics: common.topics, producer: producer, metrics: metrics, journal: journal,
            onDone: { dispatch.done($0, standing: $1) })
        let worker = PushWorker(
            PushWorker.Parts(
                consumer: consumer, dispatch: dispatch, parking: parking,
                lookup: PushLookup(registrations: registrations, view: view), errands: errands, clients: clients,
                metrics: metrics, journal: journal),
            limits: limits, environment: environment
        ) {
            // They hold each other.
            finished.consumer.withLock { $0 = nil }
            await producer.close()
            await redis.close()
        }
        let refused = {
            @Sendable [logger = environment.logger] (brand: OrderTypeIdentifier, error: any Error, text: Logger.Message)
            in
            logger.error(text, metadata: ["brand": "\(brand)", "error": "\(error)"])
        }
        for (type, error) in clients.failures { refused(type, error, "push credential cannot be used") }
        let reloader = BrandReloader(settings.brands, environment: environment) { brands in
            for (type, error) in await clients.update(brands) {
                refused(type, error, "push credential cannot be used, the last one goes on working")
            }
        }
        return [
            reloader, CredentialGauges(metrics: metrics, dispatch: dispatch, parking: parking), worker,
            RedisMonitor(redis, environment, holdsReadiness: false),
        ]
    }
}

extension APNSCredential {
    /// How a brand proves itself to APNs.
    init(_ authentication: PushAuthentication, _ tokens: ProviderTokenSources) throws {
        switch authentication {
        case .certificate(let chain, let key): self = .certificate(chainPEM: chain, keyPEM: key)
        case .token(let key, let keyIdentifier, let teamIdentifier):
            self = .token(
                try tokens.source(
                    privateKeyPEM: key, keyIdentifier: keyIdentifier, teamIdentifier: teamIdentifier))
        }
    }
}
