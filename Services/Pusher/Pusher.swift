import APNS
import Adoption
import ArgumentParser
import Brands
import Cryptography
import FoundationEssentials
import Kafka
import Logging
import Model
import NIOCore
import Operations
import Redis
import ServiceLifecycle
import Store

/// The program: `Main` is all that is not in the library, so that tools of tests can use that.
public func runPusher() async { await Pusher.main() }

/// Notifies devices through APNs that one of their orders has changed.
struct Pusher: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "waybill-pusher",
        abstract: "Notifies devices through APNs that an order changed.",
        discussion: ServiceMain.help,
        version: Self.version.description,
        subcommands: [NotifyCommand.self, CheckCommand.self, HealthCommand.self])

    static let version = ProgramVersion(
        "waybill-pusher",
        libraries: [
            ("librdkafka", librdkafkaVersion()), ("hiredis", hiredisVersion()), ("OpenSSL", openSSLVersion()),
            ("nghttp2", APNSClient.nghttp2Version),
        ])

    @Flag(help: "Print the effective configuration, secrets redacted, and exit.")
    var checkConfig = false

    func run() async throws {
        try await ServiceMain.run(
            name: "waybill-pusher", version: Self.version, metrics: MetricRow.pusher,
            checkOnly: self.checkConfig,
            conditions: [WorkerCondition.joined],
            needs: Self.needs,
            read: { settings, common in try PusherSettings(settings, common: common) },
            build: { settings, environment in try Self.build(settings, environment) })
    }
}

extension Pusher {
    /// The consumer group of all pushers, for the default prefix of topics: see `Topics.group`.
    static let group = "waybill-pusher"

    /// The consumer group of the readers of the pending topic, likewise.
    static let pendingGroup = "waybill-pusher-pending"

    /// Returns the pusher's requirements on Kafka's topics. A registration takes a few hundred bytes, a dead letter a
    /// few thousand.
    static func needs(_ topics: Topics) -> [KafkaTopicNeed] {
        [
            KafkaTopicNeed(topics.orders, isRead: true, isCompacted: true),
            KafkaTopicNeed(
                topics.registrations, isRead: true, isWritten: true, isCompacted: true, messageBytes: 4096),
            KafkaTopicNeed(
                topics.pushPending, isRead: true, isWritten: true, isCompacted: true, messageBytes: 4096),
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
        let redis = RedisClient(environment.redis, eventLoopGroup: environment.group)
        let producer = try KafkaProducer(
            environment.producing(within: common.shutdownLimit / 4),
            topics: [common.topics.registrations, common.topics.deadLetters])
        let limits = limits ?? settings.limits
        let metrics = PusherMetrics(factory: environment.metrics, host: "\(settings.endpoint)")
        let log = PusherLog(
            logger: environment.logger, readiness: environment.readiness, metrics: environment.metrics)
        let wallClock = { @Sendable in Int64(Date().timeIntervalSince1970 * 1000) }
        let parking = PushParking(limits: limits, topics: common.topics)
        let scheduler = PushScheduler(
            limits: limits, pendingTopic: common.topics.pushPending, wallClock: wallClock)
        let group = common.topics.group(of: Self.group)
        let notified = NotifiedLedger(topic: common.topics.orders)
        let suspects = PushSuspects(
            WorkMarks(
                redis: redis, group: group, instance: common.instance(of: group) ?? "",
                slots: PushWorker.lookups + 1))
        let consumer = try KafkaConsumer(
            environment.joining.onAssignment(suspects.assigned), group: group,
            topics: [common.topics.orders, common.topics.registrations],
            instance: common.instance(of: group), onLeaving: { scheduler.drop($0) + parking.drop($0) },
            onCommit: { moment in if case .acknowledged(let positions) = moment { notified.committed(positions) } })
        let pendingGroup = common.topics.group(of: Self.pendingGroup)
        let pending = PendingPushes(
            parking: parking, scheduler: scheduler, topic: common.topics.pushPending,
            consumer: try PendingPushes.consumer(
                environment.kafka, group: pendingGroup, topic: common.topics.pushPending,
                instance: common.instance(of: pendingGroup)
            ) { scheduler.drop($0) + parking.drop($0) },
            kafka: environment.kafka, others: consumer, producer: producer, metrics: metrics, log: log, limits: limits,
            wallClock: wallClock)
        scheduler.whenFinished(pending.finished)
        scheduler.whenChanged { type, change in
            log.changed(type.rawValue, change)
            metrics[type.rawValue].changed(change)
        }
        if let spans = environment.spans { scheduler.whenTraced { spans.record($0) } }
        let view = MaterializedView(redis: redis)
        let adoption = AdoptionTally(environment)
        let registrations = AdoptionTally.registrations(redis, adoption, isByCustomer: true)
        let tokens = ProviderTokenSources()
        let clients = PushClients(settings.brands.brands, scheduler: scheduler, onRenewed: log.renewed) {
            type, push, generation in
            let credential = metrics[type.rawValue]
            var configuration = APNSConfiguration()
            configuration.onEvent = { event in
                credential.happened(event)
                switch event {
                case .connected: scheduler.connected(type)
                case .unreachable(let error): scheduler.unreachable(type, error.message, generation: generation)
                default: break
                }
            }
            configuration.closeTimeout = .milliseconds(Int64(common.shutdownLimit / .milliseconds(1)) * 2 / 5)
            configuration.queueLimit = limits.inFlight
            configuration.connections = settings.connections
            return try APNSClient(
                endpoint: settings.endpoint, credential: APNSCredential(push, tokens), rootsPEM: settings.roots,
                proxy: settings.proxy, eventLoopGroup: environment.group, configuration: configuration,
                onReplies: { replies in
                    credential.answered(replies)
                    scheduler.receive(replies, of: type, generation: generation)
                })
        }
        let followUps = FollowUps(
            scheduler: scheduler,
            retirement: TokenInvalidation(
                topics: common.topics, registrations: registrations, view: ViewEpochCache(view), producer: producer),
            topics: common.topics, producer: producer, metrics: metrics, log: log)
        let worker = PushWorker(
            PushWorker.Parts(
                consumer: consumer, scheduler: scheduler, parking: parking, pending: pending,
                lookup: PushLookup(registrations: registrations, view: view), notified: notified,
                positions: NotifiedPositions(redis: redis), suspects: suspects, producer: producer,
                followUps: followUps, clients: clients, metrics: metrics, log: log),
            limits: limits, environment: environment
        ) {
            await producer.close()
            await redis.close()
        }
        let refused = {
            @Sendable [logger = environment.logger] (brand: OrderTypeIdentifier, error: any Error, text: Logger.Message)
            in
            logger.error(text, metadata: ["brand": "\(brand)", "error": "\(error)"])
        }
        for (type, error) in clients.failures { refused(type, error, "cannot use the push credential") }
        let reloader = BrandReloader(settings.brands, environment: environment) { brands in
            for (type, error) in await clients.update(brands) {
                refused(type, error, "cannot use the push credential; the previous one stays in use")
            }
        }
        return (adoption.map { [AdoptionReporter($0, environment)] } ?? []) + [
            reloader, CredentialGauges(metrics: metrics, scheduler: scheduler, parked: { parking.with { $0.counts } }),
            worker,
            RedisMonitor(redis, environment),
        ]
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
