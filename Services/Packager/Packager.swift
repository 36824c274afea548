import Adoption
import ArgumentParser
import Brands
import Cryptography
import Fetch
import Kafka
import Lua
import Model
import Operations
import Packaging
import Redis
import ServiceLifecycle
import Store

/// The entry point. A process that maps records or decodes pictures closes its wall here, while it has one thread.
@main
enum PackagerProgram {
    static func main() async {
        let arguments = CommandLine.arguments.dropFirst()
        if arguments.count == 2, arguments.first == MapperChild.command { MapperChild.serve(arguments.last ?? "") }
        if arguments.count == 2, arguments.first == PictureChildren.command {
            PictureChildren.serve(arguments.last ?? "")
        }
        await Packager.main()
    }
}

/// Folds order changes from Kafka into orders, packages and signs them, and puts them into Redis.
struct Packager: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "waybill-packager",
        abstract: "Turns order changes on Kafka into signed packages in Redis.",
        version: Self.version.description,
        subcommands: [
            RunCommand.self, OrderCommand.self, ResignCommand.self, RetokenCommand.self, RekeyCommand.self,
            RestoreCommand.self, ForgetCommand.self, ExpireCommand.self, DeadLettersCommand.self, TopicsCommand.self,
            CheckCommand.self, IngestCommand.self, ImportCommand.self, ReportCommand.self, HealthCommand.self,
        ],
        defaultSubcommand: RunCommand.self)

    static let version = ProgramVersion(
        "waybill-packager",
        libraries: [
            ("librdkafka", librdkafkaVersion()), ("hiredis", hiredisVersion()), ("OpenSSL", openSSLVersion()),
            ("libcurl", curlVersion()), ("Lua", luaVersion()),
        ])
}

/// The service itself, which runs if no command is named.
struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Runs the service (the default command).", discussion: ServiceMain.help)

    @Flag(help: "Print the effective configuration, secrets redacted, and exit.")
    var checkConfig = false

    func run() async throws {
        try await ServiceMain.run(
            name: "waybill-packager", version: Packager.version, metrics: MetricRow.packager,
            checkOnly: self.checkConfig,
            conditions: [WorkerCondition.joined, ViewRecovery.condition], refusesEviction: true, needs: Packager.needs,
            read: { settings, common in try PackagerSettings(settings, common: common) },
            build: { settings, environment in try Packager.build(settings, environment) })
    }
}

extension Packager {
    /// The consumer group of all packagers, for the default prefix of topics: see `Topics.group`.
    static let group = "waybill-packager"

    /// Returns the packager's requirements for Kafka's topics.
    ///
    /// A change has up to 1 MiB, and so has an order; escapes, the fields around it, and the headers of a dead letter
    /// may add to that.
    static func needs(_ topics: Topics) -> [KafkaTopicNeed] {
        topics.orderChangeSources.filter { !Topics.isPattern($0) }.map { KafkaTopicNeed($0, isRead: true) } + [
            KafkaTopicNeed(
                topics.orders, isRead: true, isWritten: true, isCompacted: true, messageBytes: 1 << 20,
                largestBytes: 4 << 20),
            KafkaTopicNeed(
                topics.registrations, isRead: true, isWritten: true, isCompacted: true, messageBytes: 4096),
            KafkaTopicNeed(
                topics.deadLetters, isRead: true, isWritten: true, messageBytes: 1 << 20, largestBytes: 4 << 20),
        ] + topics.used(.adoption).map { KafkaTopicNeed($0, isWritten: true, isCompacted: true, messageBytes: 4096) }
    }

    /// Makes the worker and the services that it works with.
    ///
    /// - Parameter limits: the limits on records in hand.
    static func build(
        _ settings: PackagerSettings, _ environment: ServiceEnvironment, limits: KeyQueue.Limits = KeyedWorker.limits
    ) throws -> [any Service] {
        let common = environment.common
        let redis = RedisClient(environment.redis, eventLoopGroup: environment.group)
        let producer = try KafkaProducer(
            // No longer than it takes until another worker gets the partitions of a stalled one: a version published
            // after that may follow that worker's versions.
            environment.producing(within: min(common.shutdownLimit / 2, common.kafka.sessionTimeout)),
            topics: [common.topics.orders, common.topics.deadLetters] + common.topics.used(.adoption))
        let packagers = OrderPackagers(settings.brands.brands, tokens: settings.tokens)
        let wakes = ViewRecovery.Wakes()
        let view = MaterializedView(redis: redis)
        let watch = ViewEpochCache(view) { wakes.wake() }
        redis.onAnotherServer { wakes.wake() }
        let cold = ColdOrders(environment)
        let store = cold.store(redis, view: watch)
        let pictureIndex = PictureIndex(redis: redis, factory: environment.metrics)
        let adoption = AdoptionTally(environment)
        var processor = ChangeProcessor(
            topics: common.topics, packagers: packagers.current, store: store,
            registrations: AdoptionTally.registrations(redis, adoption, isByCustomer: false), producer: producer,
            metrics: PackagerMetrics(factory: environment.metrics), logger: environment.logger,
            spans: environment.spans)
        processor.pictureIndex = pictureIndex
        processor.policy = settings.policy
        processor.awaited = { [brands = settings.brands] in brands.reasonToAwait($0) }
        processor.unknown = UnknownOrders(
            patience: settings.unknownOrderPatience, gauge: processor.metrics.unknownOrders)
        processor.view = watch
        var repackager = OrderRepackager(
            topics: common.topics, store: store, producer: producer, packagers: { packagers.current })
        repackager.pictureIndex = pictureIndex
        let maker = PictureMaker(fit: PictureChildren(PictureChildren.sandbox(settings.wall)).fit)
        let fetching = try [false, true].map { areDocuments in
            try PictureWorker(
                pictureIndex, areDocuments: areDocuments, store: store, fetching: settings.pictures,
                repackage: { [repackager] in try await repackager.repackage($0).postponed(of: $0) },
                packagers: { packagers.current }, maker: maker, logger: environment.logger)
        }
        let groups: @Sendable () -> [KeyGroup] = { [brands = settings.brands] in
            brands.groups(served: packagers.generations)
        }
        let requestClient = RedisClient(waiting: environment.redis, eventLoopGroup: environment.group)
        // Without the view: also orders are packaged that a restore has brought back while it goes on.
        var answerer = repackager
        answerer.store = cold.store(redis)
        let requested = RequestedPackages(
            requests: PackageRequests(redis: requestClient), repackager: answerer,
            requested: processor.metrics.packagesRequested, logger: environment.logger
        ) {
            await requestClient.close()
        }
        let group = common.topics.group(of: Self.group)
        let marks = WorkMarks(
            redis: redis, group: group, instance: common.instance(of: group) ?? "", slots: KeyedWorker.concurrency)
        let worker = try KeyedWorker(
            group: group, topics: common.topics.orderChangeSources, environment: environment, limits: limits,
            groups: groups, onCommit: CrashPoint.commits,
            suspects: SuspectWatch.Parts(marks: marks) { [processor] in await processor.refuse($0) }
        ) { [processor] works, mark in
            var processor = processor
            processor.packagers = packagers.current
            return await processor.process(works, marking: mark)
        } onStopped: {
            await producer.close()
            await cold.close()
            await redis.close()
        }
        let reloader = BrandReloader(settings.brands, tokens: settings.tokens, environment: environment) {
            packagers.update($0)
        }
        let recovery = try Self.recovery(view, wakes, store, settings.cooling, adoption, environment)
        var sweep = AssetSweep(watch, cooling: settings.cooling)
        if adoption != nil { sweep.adoption = AdoptionTotals(redis: redis) }
        let sweeper = Self.sweeper(sweep, redis, watch, producer, environment)
        let monitor = RedisMonitor(redis, environment)
        let partitions = PartitionWatch(
            topics: [common.topics.orders, common.topics.registrations], counts: PartitionCounts(redis: redis),
            environment: environment)
        let letters = DeadLetterWatch(
            DeadLetterTopic(reader: try KafkaReader(environment.kafka), topic: common.topics.deadLetters),
            metrics: environment.metrics, logger: environment.logger)
        // Stopped in reverse: the worker closes what it shares with those after it, and what it counted is reported
        // last.
        var services: [any Service] = [reloader]
        if let adoption { services.append(AdoptionReporter(adoption, environment)) }
        services.append(worker)
        if adoption != nil {
            services.append(
                AdoptionPublisher(
                    AdoptionTotals(redis: redis), topic: common.topics.adoption, producer: producer, environment,
                    brands: { Array(packagers.current.keys) }))
        }
        services += fetching as [any Service]
        services += [requested, recovery, sweeper, monitor, partitions, letters] as [any Service]
        return services
    }

    /// Makes the service that cools orders and sweeps assets. Its reads do not delay those of changes.
    private static func sweeper(
        _ sweep: AssetSweep, _ redis: RedisClient, _ view: ViewEpochCache, _ producer: KafkaProducer,
        _ environment: ServiceEnvironment
    ) -> AssetSweeper {
        let verifying = ColdOrders(environment, verifies: true)
        let store = verifying.store(redis, view: view)
        let publisher = VersionPublisher(topics: environment.common.topics, store: store, producer: producer)
        return AssetSweeper(
            sweep: sweep,
            cooler: {
                OrderCooler(store, publisher, environment.logger) { environment.readiness.reasons.isEmpty }
            }, metrics: AssetMetrics(factory: environment.metrics), logger: environment.logger,
            onStopped: { await verifying.close() })
    }

    /// Makes the service that maintains the view.
    private static func recovery(
        _ view: MaterializedView, _ wakes: ViewRecovery.Wakes, _ store: OrderStore, _ cooling: Cooling,
        _ adoption: AdoptionTally?, _ environment: ServiceEnvironment
    ) throws -> ViewRecovery {
        let metrics = RestoreMetrics(factory: environment.metrics)
        let topics = environment.common.topics
        return ViewRecovery(
            view: view, ordersTopic: topics.orders, registrationsTopic: topics.registrations,
            reader: try KafkaReader(environment.kafka),
            orders: OrderRestorer(store: store, cooling: cooling, metrics: metrics, logger: environment.logger),
            registrations: RegistrationRestorer(
                registrations: AdoptionTally.registrations(view.redis, adoption, isByCustomer: false),
                metrics: metrics, logger: environment.logger),
            metrics: metrics, readiness: environment.readiness, logger: environment.logger, wakes: wakes)
    }
}

extension BrandLibrary {
    /// Returns the reason why changes of an order type without a packager wait; nil if there is no brand for it.
    ///
    /// A brand that fails is found by the order type that it had or that its brand.json declares, or by the name of its
    /// folder.
    func reasonToAwait(_ type: OrderTypeIdentifier) -> String? {
        if let failure = self.failures.first(where: { $0.orderType == type || $0.folder == type.rawValue }) {
            return "brand \(failure.label) cannot be loaded: \(failure.error)"
        }
        // In this order: a brand that was repaired between the two checks is found by the second.
        return self.brands.serves(type) ? "brand \(type) is just being loaded" : nil
    }
}

extension BrandLibrary {
    /// Returns a group for each order type: each shares the records in hand, and waits alone while its brand cannot be
    /// loaded.
    ///
    /// - Parameter served: types whose changes can be processed, and the generations of their brands.
    func groups(served: [OrderTypeIdentifier: Int]) -> [KeyGroup] {
        let failed = self.failures.map { $0.orderType?.rawValue ?? $0.folder }
        let known = Dictionary(served.map { ($0.key.rawValue, $0.value) }) { first, _ in first }
        let names = Set(self.brands.orderTypes.map(\.rawValue) + failed + known.keys)
        return names.sorted().map { name in
            guard known[name] == nil, let type = try? OrderTypeIdentifier(name) else {
                return KeyGroup(name: name, awaits: nil, generation: known[name] ?? 0)
            }
            return KeyGroup(name: name, awaits: self.reasonToAwait(type))
        }
    }
}
