import ArgumentParser
import Kafka
import Logging
import Model
import Operations
import Redis
import Sandbox
import ServiceLifecycle
import Store

/// `waybill-packager ingest`: the role that maps other systems' events to changes of orders.
struct IngestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ingest",
        abstract: "Maps events of other systems to changes of orders, by the programs of WAYBILL_SOURCES.",
        subcommands: [
            IngestRunCommand.self, IngestMapCommand.self, IngestTestCommand.self, IngestLintCommand.self,
            IngestSampleCommand.self, IngestDryRunCommand.self,
        ],
        defaultSubcommand: IngestRunCommand.self)
}

/// The role itself, which runs if no command is named.
struct IngestRunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Runs the role (the default command).", discussion: ServiceMain.help)

    @Flag(help: "Print the effective configuration, secrets redacted, and exit.")
    var checkConfig = false

    func run() async throws {
        var sourceTopics: [String] = []
        try await ServiceMain.run(
            name: "waybill-ingest", version: Packager.version, metrics: MetricRow.ingest, checkOnly: self.checkConfig,
            conditions: [WorkerCondition.joined],
            needs: { Ingest.needs($0, sourceTopics) },
            read: { settings, common in
                let own = try IngestSettings(settings, common: common)
                sourceTopics = own.sources.table.topics
                return own
            },
            build: { settings, environment in try await Ingest.build(settings, environment) })
    }
}

/// The settings of the role besides `CommonSettings`.
struct IngestSettings {
    let sources: SourceLibrary
    /// The time that a record waits for the order of a parcel.
    let unknownOrderPatience: Duration
    /// The processes that map, and the most of them.
    let sandbox: Sandbox
    let mappers: Int

    /// - Parameter program: that of the mapper processes, by default this one.
    /// - Throws: `SettingsError` naming key and value.
    init(_ settings: Settings, common: CommonSettings, program: String? = nil) throws(SettingsError) {
        let path = try settings.required(.sources, "directory with one sub-directory per source")
        self.sandbox = .mapper(try settings.sandboxWall(), path: program)
        self.mappers = try settings.integer(.mappers, default: 4, in: 1...64)
        do {
            self.sources = try SourceLibrary(
                directory: path, topics: common.topics, isStrict: settings.isCheck, in: self.sandbox)
        } catch {
            throw SettingsError(.sources, value: path, "\(error)")
        }
        self.unknownOrderPatience = try settings.unknownOrderPatience()
    }
}

/// Building the role.
enum Ingest {
    /// The consumer group of all ingest workers, for the default prefix of topics: see `Topics.group`.
    static let group = "waybill-ingest"

    /// Returns the role's requirements for Kafka's topics.
    static func needs(_ topics: Topics, _ sources: [String]) -> [KafkaTopicNeed] {
        sources.filter { !Topics.isPattern($0) }.map { KafkaTopicNeed($0, isRead: true, isForeign: true) } + [
            KafkaTopicNeed(topics.orderChanges, isWritten: true, messageBytes: 1 << 20),
            KafkaTopicNeed(topics.deadLetters, isWritten: true, messageBytes: 1 << 20, largestBytes: 4 << 20),
        ]
    }

    static func build(
        _ settings: IngestSettings, _ environment: ServiceEnvironment
    ) async throws -> [any Service] {
        let mapper = Mapper(settings.sandbox, count: settings.mappers)
        try await mapper.start()
        let common = environment.common
        let sources = settings.sources
        let producer = try KafkaProducer(
            environment.producing(within: min(common.shutdownLimit / 2, common.kafka.sessionTimeout)),
            topics: [common.topics.orderChanges, common.topics.deadLetters])
        let metrics = IngestMetrics(factory: environment.metrics)
        // It connects when a program asks for a parcel.
        let redis = RedisClient(environment.redis, eventLoopGroup: environment.group)
        let view = ViewEpochCache(MaterializedView(redis: redis))
        let processor = IngestProcessor(
            topics: common.topics, producer: producer,
            deadLetters: DeadLetterPublisher(
                topics: common.topics, producer: producer, counter: metrics.deadLetters, logger: environment.logger,
                spans: environment.spans),
            metrics: metrics, table: { sources.table },
            mapper: SourceMapper(
                mapper: mapper, topic: common.topics.orderChanges,
                parcels: OrderStore(redis: redis, view: view).parcels),
            unknown: UnknownOrders(patience: settings.unknownOrderPatience, gauge: metrics.unknownAliases),
            spans: environment.spans)
        let groups: @Sendable () -> [KeyGroup] = {
            sources.table.sources.map {
                KeyGroup(name: $0.name, awaits: $0.registry?.reasonToAwait, generation: $0.generation)
            }
        }
        let keyed: @Sendable (KafkaRecord) -> [UInt8]? = { record in
            let source = sources.table.source(of: record.topic)?.name ?? ""
            return SourceKey.key(of: record.key, source: source, topic: record.topic, partition: record.partition)
        }
        let startsAtEnd: @Sendable (String) -> Bool = { sources.table.source(of: $0)?.startsAtEnd ?? false }
        let worker = try KeyedWorker(
            group: common.topics.group(of: Self.group), topics: sources.table.topics, environment: environment,
            groups: groups, startsAtEnd: startsAtEnd, keyed: keyed, onCommit: CrashPoint.commits
        ) { works, _ in
            await processor.process(works)
        } onStopped: {
            await mapper.close()
            await producer.close()
            await redis.close()
        }
        return [
            SourceReloader(library: sources, logger: environment.logger),
            SchemaFetcher(table: { sources.table }, mapper: mapper), worker,
        ]
    }
}
