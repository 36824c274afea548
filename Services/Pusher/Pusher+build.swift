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

    /// The pusher's requirements on Kafka's topics. A registration takes some hundred bytes, a letter some thousand.
    static func needs(_ topics: Topics) -> [KafkaTopicNeed] {
        [
            KafkaTopicNeed(topics.orders, isRead: true, isCompacted: true),
            KafkaTopicNeed(
                topics.registrations, isRead: true, isWritten: true, isCompacted: true, messageBytes: 4096),
            KafkaTopicNeed(topics.deadLetters, isWritten: true, messageBytes: 65_536),
        ]
    }

    /// Makes the worker and its parts.
    ///
    /// - Parameter limits: limits in place of those in the settings; for tests.
    static func build(
        _ settings: PusherSettings, _ environment: ServiceEnvironment, limits: PushLimits? = nil
    ) throws -> [any Service] {
        let common = environment.common
        let redis = RedisClient(common.redis, eventLoopGroup: environment.group)
        let producer = try KafkaProducer(
            environment.producing(within: common.shutdownLimit / 4),
            topics: [common.topics.registrations, common.topics.deadLetters])
        let limits = limits ?? settings.limits
        let metrics = PusherMetrics(factory: environment.metrics, host: "\(settings.endpoint)")
        let log = PusherLog(logger: environment.logger, readiness: environment.readiness)
        let wallClock = { @Sendable in Int64(Date().timeIntervalSince1970 * 1000) }
        let parking = PushParking(limits: limits, topics: common.topics)
        let pending = PendingPushes(
            parking: parking, topics: common.topics, kafka: environment.kafka, producer: producer,
            metrics: metrics, log: log, limits: limits, wallClock: wallClock)
        let dispatch = PushScheduler(
            limits: limits, wallClock: wallClock, onFinished: { pending.finished($0) },
            onChange: { log.changed("\($0)", $1) })
        let group = common.topics.group(of: Self.group)
        let told = ToldLedger(topic: common.topics.orders)
        let consumer = try KafkaConsumer(
            environment.joining, group: group, topics: [common.topics.orders, common.topics.registrations],
            instance: common.instance(of: group), onLeaving: { dispatch.drop($0) + parking.drop($0) },
            onCommit: { moment in if case .acknowledged(let positions) = moment { told.committed(positions) } })
        // The consumer queries the scheduler, and the scheduler reports to the consumer.
        pending.shared.consumer.withLock { $0 = consumer }
        let view = MaterializedView(redis: redis)
        let registrations = Registrations(redis: redis)
        let tokens = ProviderTokenSources()
        let clients = PushClients(settings.brands.brands, dispatch: dispatch, onRenewed: log.renewed) {
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
        let followUps = FollowUps(
            queue: dispatch.followUps,
            retirement: TokenInvalidation(
                topics: common.topics, registrations: registrations, view: ViewEpochCache(view), producer: producer),
            topics: common.topics, producer: producer, metrics: metrics, log: log,
            onDone: { dispatch.done($0, standing: $1) })
        let worker = PushWorker(
            PushWorker.Parts(
                consumer: consumer, dispatch: dispatch, parking: parking, pending: pending,
                joinPending: { () throws(KafkaError) in
                    try Self.joinPending(environment, dispatch: dispatch, parking: parking, pending: pending)
                },
                lookup: PushLookup(registrations: registrations, view: view), told: told,
                positions: ToldPositions(redis: redis), followUps: followUps, clients: clients,
                metrics: metrics, log: log),
            limits: limits, environment: environment
        ) {
            // They retain each other.
            pending.shared.consumer.withLock { $0 = nil }
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

extension Pusher {
    /// The consumer group of the readers of the pending topic, for the default prefix of topics: separate, so that it
    /// can be read more slowly.
    static let pendingGroup = "waybill-pusher-pending"

    /// Joins the group of the readers of the pending topic. Once it has admitted this process, records written there
    /// have a reader.
    /// written there.
    fileprivate static func joinPending(
        _ environment: ServiceEnvironment, dispatch: PushScheduler, parking: PushParking, pending: PendingPushes
    ) throws(KafkaError) -> KafkaConsumer {
        let topic = environment.common.topics.pushPending
        let group = environment.common.topics.group(of: Self.pendingGroup)
        var configuration = environment.kafka
        let log = configuration.onEvent
        configuration.onEvent = { [weak dispatch, weak pending] event in
            if event.kind == .assigned {
                dispatch?.suspend(to: topic)
                pending?.begin()
            }
            log?(event)
        }
        // No device waits for these records: fewer fetches, less read-ahead.
        let slower = ["fetch.wait.max.ms": "100", "queued.max.messages.kbytes": "1024"]
        configuration.properties.merge(slower) { given, _ in given }
        return try KafkaConsumer(
            configuration, group: group, topics: [topic], instance: environment.common.instance(of: group),
            onLeaving: { dispatch.drop($0) + parking.drop($0) })
    }
}

extension APNSCredential {
    /// The credential with which a brand authenticates to APNs.
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
