import Adoption
import Brands
import Fetch
import HTTPServer
import Kafka
package import Model
package import Operations
import Redis
import ServiceLifecycle
import Store

/// The checkout role: its parts and their limits.
package enum Checkout {
    /// The longest time that a change waits for Kafka's acknowledgement.
    static let deliveryLimit = Duration.seconds(5)

    /// The time for which the producer retries the order of a customer who has been charged.
    static let patientDeliveryLimit = Duration.seconds(120)

    /// Runs the role until SIGTERM or SIGINT.
    ///
    /// - Parameters:
    ///   - version: that of the program which has the role.
    ///   - checkOnly: true to print the effective configuration and return.
    package static func run(version: ProgramVersion, checkOnly: Bool) async throws {
        try await ServiceMain.run(
            name: "waybill-checkout", version: version, metrics: MetricRow.checkout, checkOnly: checkOnly,
            conditions: HTTPListener.conditions, dependence: .part, needs: Self.needs, drain: { $0.edge.drain },
            read: { settings, common in try CheckoutSettings(settings, common: common) },
            build: { settings, environment in try await Self.build(settings, environment) })
    }

    /// Checks configuration and surroundings of the role.
    ///
    /// - Parameters:
    ///   - version: that of the program which has the role.
    ///   - patience: the factor of all time limits.
    package static func preflight(
        _ variables: [String: String], isOffline: Bool, version: ProgramVersion, patience: Int = 1
    ) async -> PreflightReport {
        await Preflight.run(
            variables, version: version, role: { .checkout($0) }, isOffline: isOffline, patience: patience,
            read: { settings, common in
                let own = try CheckoutSettings(settings, common: common)
                return (own: own, merchants: own.merchants.map { MerchantCheck($0, own, patience: patience) })
            },
            topics: { settings in settings.merchants?.topics ?? [] },
            checks: { settings, environment in
                [settings.own.brands.preflight(environment.common.brands)] + (settings.merchants?.checks ?? [])
            })
    }

    /// Returns the role's requirements on Kafka's topics.
    static func needs(_ topics: Topics) -> [KafkaTopicNeed] {
        [
            KafkaTopicNeed(
                topics.orderChanges, isWritten: true, messageBytes: 64 << 10, largestBytes: OrderChange.valueLimit)
        ]
    }

    /// Makes the server and its parts.
    static func build(
        _ settings: CheckoutSettings, _ environment: ServiceEnvironment
    ) async throws -> [any Service] {
        let common = environment.common
        let producer = try KafkaProducer(
            environment.producing(within: Self.deliveryLimit), topics: [common.topics.orderChanges])
        let patientProducer = try KafkaProducer(
            environment.producing(within: Self.patientDeliveryLimit), topics: [common.topics.orderChanges])
        let redis = RedisClient(environment.redis, eventLoopGroup: environment.group)
        let waitingRedis = RedisClient(waiting: environment.redis, eventLoopGroup: environment.group)
        let metrics = CheckoutMetrics(factory: environment.metrics)
        let holders = ClaimHolders(redis: redis)
        // Without Redis: what is unambiguous in the directory.
        let written = settings.merchants == nil ? nil : try? await holders.settle()
        let merchants = try MerchantLibrary(
            directory: settings.merchants, loading: settings.loading, isStrict: false,
            claims: MerchantClaims(written: written), ledger: holders, metrics: metrics, logger: environment.logger)
        let publisher = ChangePublisher(
            producer: producer, patientProducer: patientProducer, group: environment.group, topics: common.topics,
            brands: settings.brands, tokens: settings.tokens,
            metrics: metrics, logger: environment.logger)
        let orders = StandingOrders(
            store: OrderStore(redis: redis), reader: PackageReader(redis: redis),
            requests: PackageRequests(redis: redis),
            views: StaleReadGuard(MaterializedView(redis: redis)), group: environment.group)
        let adoption = AdoptionTally(environment)
        var mint = OrderDetailsMint(tokens: settings.tokens, webServiceURL: settings.webServiceURL)
        if let adoption { mint.onHandedOut = { adoption.count(.details, of: $0) } }
        let repeated = RepeatedRequests(redis: redis, waiting: waitingRedis)
        let requests = IdempotentRequests(store: repeated, logger: environment.logger)
        let changes = OrderChangesEndpoint(publisher: publisher, orders: orders, requests: requests)
        var calls = FetcherConfiguration()
        calls.concurrency = CallCapacity.limit
        calls.queueLimit = CallCapacity.limit
        calls.rootsPEM = settings.applePay.rootsPEM
        let fetcher = try Fetcher(calls)
        let appleFetcher = try Fetcher(settings.applePay)
        for fetcher in [fetcher, appleFetcher] {
            fetcher.whenEnded { [readiness = environment.readiness] in
                readiness.unmet("calls", "no service can be called any more: restart the process")
            }
        }
        let capacity = CallCapacity(fetcher: fetcher, logger: environment.logger)
        let upstream = UpstreamClient(calls: capacity)
        let rates = SessionRates.Limits.of(client: settings.sessionsPerClient)
        let responder = CheckoutResponder(
            merchants: merchants,
            details: OrderDetailsEndpoints(
                mint: mint, publisher: publisher, orders: orders, requests: requests,
                mailLinkSeconds: settings.mailLinkSeconds),
            changes: changes,
            confirm: ConfirmEndpoint(
                mint: mint, publisher: publisher, orders: orders, index: TokenIndex(redis: redis), requests: requests,
                calls: capacity, logger: environment.logger),
            notify: NotifyEndpoint(publisher: publisher, orders: orders, changes: changes, requests: requests),
            webhooks: WebhookEndpoint(
                producer: producer, accepted: repeated, metrics: metrics, logger: environment.logger),
            baskets: BasketEndpoints(
                upstream: upstream, rates: SessionRates(rates.times(SessionRates.lookupFactor)),
                logger: environment.logger),
            payments: PaymentEndpoint(
                upstream: upstream, rates: SessionRates(rates.times(SessionRates.paymentFactor)),
                publisher: publisher, mint: mint, logger: environment.logger),
            sessions: MerchantSessionEndpoint(
                client: MerchantSessionClient(
                    fetcher: appleFetcher, logger: environment.logger),
                rates: SessionRates(rates), attempts: SessionRates(rates.times(SessionRates.attemptFactor)),
                logger: environment.logger),
            files: BrowserFiles(hasPolyfill: settings.hasPolyfill),
            metrics: metrics, logger: environment.logger)
        let edge = TransportPolicy(settings.edge, environment)
        let server = HTTPListener(
            address: settings.listen, endpoints: responder, environment: environment, edge: edge,
            onStopped: {
                await producer.close()
                await patientProducer.close()
                await waitingRedis.close()
                await redis.close()
            })
        let reloader = BrandReloader(settings.brands, tokens: settings.tokens, environment: environment)
        let monitor = RedisMonitor(redis, environment)
        let reporters = adoption.map { [AdoptionReporter($0, environment)] } ?? []
        return reporters + [reloader, merchants, server, monitor] + (edge.certificates.map { [$0] } ?? [])
    }
}
