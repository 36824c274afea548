import Kafka
import Model
import Store
import TestKit

/// A stream of changes and the devices that follow it, while an external driver injects faults. At the end, the run
/// compares everything.
struct ChaosRun: Sendable {
    /// The interval at which a device polls.
    private static let pollInterval = Duration.seconds(15)
    /// The longest wait for recovery after a fault.
    private static let recoveryLimit = Duration.seconds(120)
    /// The suffix of the name of a fault that gives Redis an older copy of its data.
    private static let older = "-older"

    let plan: ChaosPlan
    let seed: UInt64
    /// The longest wait for the system to become idle after the last fault.
    let patience: Duration
    /// True if the broker is librdkafka's own.
    let isEmbedded: Bool
    let http: HTTPClient
    let tokens: DerivedTokens
    let verifier: PackageVerifier
    let kafka: ChaosKafka
    let journal: APNSJournal
    let tally = ChaosTally()
    let publisher: ChaosPublisher
    let forgetting: ChaosForgetting
    let devices: [ChaosDevice]
    /// The devices that have each order.
    private let owners: [Int: [Int]]

    var stack: StackEnvironment { self.kafka.stack }
    var admin: KafkaAdmin { self.kafka.admin }

    /// - Parameters:
    ///   - devices: the number of devices.
    ///   - ordersPerDevice: the number of orders on each, drawn by the seed.
    init(
        stack: StackEnvironment, plan: ChaosPlan, rate: Int, devices: Int, ordersPerDevice: Int, seed: UInt64,
        patience: Duration, isEmbedded: Bool
    ) throws {
        self.plan = plan
        self.seed = seed
        self.patience = patience
        self.isEmbedded = isEmbedded
        let http = try HTTPClient(connectionsPerHost: 128)
        self.http = http
        self.tokens = try DerivedTokens(file: stack.tokenSecrets)
        let verifier = try PackageVerifier(rootsPEM: readFile(stack.roots))
        self.verifier = verifier
        self.kafka = try ChaosKafka(stack)
        let journal = APNSJournal(admin: stack.apnsAdmin, http: http)
        self.journal = journal
        self.publisher = ChaosPublisher(
            plan: plan, rate: rate, kafka: try stack.kafkaConfiguration(), tally: self.tally)
        let (tally, forgetting) = (self.tally, ChaosForgetting(tally: self.tally))
        self.forgetting = forgetting
        self.devices = (0..<devices).map { index in
            ChaosDevice(
                WalletDevice(gateway: stack.gateway, orderType: stack.orderType, http: http, verifier: verifier),
                isPolling: index % 2 == 0, journal: journal, tally: tally, forgetting: forgetting)
        }
        var random = SeededGenerator(seed: seed ^ 0xDE71CE)
        var owners: [Int: [Int]] = [:]
        for device in 0..<devices {
            // Nothing is left of a device whose only order is forgotten.
            for _ in 0..<(device % 4 == 3 ? 1 : ordersPerDevice) where !plan.orders.isEmpty {
                let order = Int.random(in: plan.orders.indices, using: &random)
                if owners[order]?.contains(device) != true { owners[order, default: []].append(device) }
            }
        }
        self.owners = owners
    }

    /// Runs the stream until the driver ends it, waits until the system is idle, and compares.
    ///
    /// - Parameter say: receives the events that the driver waits for, one line each.
    func run(samples: Int, say: @escaping @Sendable (String) -> Void) async throws {
        var check = ChaosCheck(
            run: self, letters: try await self.admin.endOffsets(Topics().deadLetters), samples: samples)
        try await self.journal.start()
        try await withThrowingTaskGroup { group in
            group.addTask { try await self.journal.run() }
            group.addTask { try await self.wakeDevices() }
            group.addTask { try await self.showProgress() }
            for device in self.devices { group.addTask { await device.run() } }
            let cooling = ChaosCooling()
            group.addTask { try await cooling.cool(self) }

            say("started")
            try await withThrowingTaskGroup { work in
                work.addTask { try await self.publisher.run(placed: self.handOver) }
                for await command in ChaosControl.commands() {
                    switch command {
                    case .mark(let name):
                        // Here rather than in the task: the driver starts Redis immediately after writing this line.
                        if name.hasSuffix(Self.older) { self.tally.fall() }
                        work.addTask { await self.watchRecovery(name, say: say) }
                    case .pause:
                        try await self.publisher.pause()
                        say("paused")
                    case .move(let bootstrap):
                        await check.takeVersions()
                        self.publisher.resume(at: try self.kafka.move(to: bootstrap))
                        say("moved")
                    case .forget(let count):
                        work.addTask { await self.forgetting.forget(count, of: self) }
                    // Also ends the pause of a driver that died.
                    case .end: self.publisher.resume()
                    }
                }
                try await work.waitForAll()
            }
            say("published")
            cooling.end()
            await check.run()
            for device in self.devices { device.finish() }
            self.journal.finish()
            group.cancelAll()
            while let result = await group.nextResult() {
                if case .failure(let error) = result, !(error is CancellationError) {
                    self.tally.differ("the run itself: \(error)")
                }
            }
        }
        await self.admin.close()
        await self.http.close()
    }

    /// Returns the token that checkout derives for an order.
    func token(_ order: Int) throws -> String {
        self.tokens.token(
            for: OrderKey(
                orderType: self.stack.orderType, order: try OrderIdentifier(self.plan.orders[order].identifier)))
    }

    /// Makes the devices that have an order drop it.
    func leave(_ order: Int) async {
        for device in self.owners[order] ?? [] { await self.devices[device].leave(self.plan.orders[order].identifier) }
    }

    func handOver(_ order: Int) async {
        guard let token = try? self.token(order) else { return }
        for device in self.owners[order] ?? [] {
            await self.devices[device].add(self.plan.orders[order].identifier, token: token)
        }
    }

    /// Makes devices poll: some from time to time, and all after the APNs simulator was down. The latter corresponds to
    /// a network that delivers the last notification to a device once it is back.
    private func wakeDevices() async throws {
        var gaps = self.journal.gaps
        var turn = 0
        let step = Self.pollInterval / max(1, self.devices.count)
        while true {
            try await Task.sleep(for: max(step, .milliseconds(5)))
            if !self.devices.isEmpty {
                turn = (turn + 1) % self.devices.count
                if self.devices[turn].isPolling { self.devices[turn].wake() }
            }
            guard self.journal.gaps != gaps else { continue }
            gaps = self.journal.gaps
            for device in self.devices { device.wake() }
        }
    }

    /// Measures the time until packagers and pushers have committed all earlier records, and until the gateway answers.
    private func watchRecovery(_ name: String, say: @Sendable (String) -> Void) async {
        let begin = ContinuousClock.now
        defer { if name.hasSuffix(Self.older) { self.tally.rise() } }

        async let gateway = self.untilGatewayAnswers(since: begin)
        async let packager = self.untilCommitted("waybill-packager", Topics().orderChanges, since: begin)
        async let pusher = self.untilCommitted("waybill-pusher", Topics().orders, since: begin)
        let times = await [packager, pusher, gateway]
        if times.contains(nil) { self.tally.count("not_recovered") }
        say("recovered \(name) \(times.map { String($0 ?? -1) }.joined(separator: " "))")
    }

    /// - Returns: milliseconds, nil if it took longer than the limit.
    private func untilCommitted(
        _ group: String, _ topic: String, since begin: ContinuousClock.Instant
    ) async -> Int64? {
        var target: [Int32: Int64]?
        var asked = self.admin
        while .now - begin < Self.recoveryLimit, !Task.isCancelled {
            let admin = self.admin
            // Offsets of one cluster say nothing about another one.
            if admin !== asked { target = nil }
            asked = admin
            if target == nil { target = try? await admin.endOffsets(topic) }
            if let target, let committed = try? await admin.committed(group: group, topic: topic),
                target.allSatisfy({ committed[$0.key] ?? 0 >= $0.value })
            {
                return (.now - begin).microseconds / 1000
            }
            try? await Task.sleep(for: .milliseconds(250))
        }
        return nil
    }

    private func untilGatewayAnswers(since begin: ContinuousClock.Instant) async -> Int64? {
        while .now - begin < Self.recoveryLimit, !Task.isCancelled {
            if let order = self.publisher.someOrder, let token = try? self.token(order) {
                let identifier = self.plan.orders[order].identifier
                let request = HTTPRequest(
                    url: "\(self.stack.gateway)/v1/orders/\(self.stack.orderType)/\(identifier)",
                    headers: [("authorization", "AppleOrder \(token)")])
                let status = try? await self.http.send(request).status
                if status == 200 { return (.now - begin).microseconds / 1000 }
                if status == 401, !self.forgetting.allowsUnauthorized(identifier) {
                    self.tally.count("wrong_401.fetch")
                    self.tally.differ("fetching order \(identifier): status 401, though the token is right")
                }
            }
            try? await Task.sleep(for: .milliseconds(50))
        }
        return nil
    }

    private func showProgress() async throws {
        let begin = ContinuousClock.now
        while true {
            try await Task.sleep(for: .seconds(5))
            Console.progress(
                "\((.now - begin).components.seconds) s: \(self.publisher.sent) of \(self.plan.steps.count) published, "
                    + "\(self.journal.delivered) pushes, \(self.tally.differences.count) differences")
        }
    }
}
