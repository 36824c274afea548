import Foundation
import Kafka
import Model
import Synchronization
import TestKit

/// Publishes a plan, lets devices follow, and waits until everything has been processed.
final class ReplayRun: Sendable {
    /// The deadline for the system to finish after everything is published.
    private static let patience = Duration.seconds(600)

    private let stack: StackEnvironment
    private let plan: ReplayPlan
    private let http: HTTPClient
    private let tokens: DerivedTokens
    private let pace: ReplayPace
    private let seed: UInt64
    private let producer: KafkaProducer
    private let admin: KafkaAdmin
    private let journal: APNSJournal
    private let devices: [Int: WalletDevice]
    private let published = Atomic<Int>(0)
    /// The broken changes by position, in the form that dead letters use.
    private let broken = Mutex<[String: BrokenRecord]>([:])

    init(stack: StackEnvironment, plan: ReplayPlan, rate: Int, devices: Int, seed: UInt64) throws {
        self.stack = stack
        self.plan = plan
        self.pace = ReplayPace(rate: rate)
        self.seed = seed
        self.http = try HTTPClient(connectionsPerHost: 64)
        self.tokens = try DerivedTokens(file: stack.tokenSecrets)
        let kafka = try stack.kafkaConfiguration()
        self.producer = try KafkaProducer(kafka)
        self.admin = try KafkaAdmin(kafka)
        self.journal = APNSJournal(admin: stack.apnsAdmin, http: self.http)
        let verifier = try PackageVerifier(rootsPEM: readFile(stack.roots))
        var random = SeededGenerator(seed: seed ^ 0xDE71CE)
        var chosen: [Int: WalletDevice] = [:]
        for story in plan.stories.indices.shuffled(using: &random).prefix(devices) {
            chosen[story] = WalletDevice(
                gateway: stack.gateway, orderType: stack.orderType, http: self.http, verifier: verifier)
        }
        self.devices = chosen
    }

    /// Runs the plan and checks the results.
    func run(samples: Int) async throws -> ReplayReport {
        let deadLetters = try await self.admin.endOffsets(Topics().deadLetters)
        let versionsBefore = try await self.versions()
        try await self.journal.start()
        var report = ReplayReport()
        let begin = ContinuousClock.now
        let failures = try await withThrowingTaskGroup(of: String?.self) { group in
            group.addTask {
                try await self.journal.run()
                return nil
            }
            group.addTask { try await self.showProgress(since: begin) }
            try await self.publish { story in
                guard let device = self.devices[story] else { return }
                group.addTask { await self.follow(story, device) }
            }
            report.publishing = .now - begin
            try await self.awaitLag(group: "waybill-packager", topic: Topics().orderChanges)
            report.packaging = .now - begin
            try await self.awaitLag(group: "waybill-pusher", topic: Topics().orders)
            try await self.awaitLag(group: "waybill-pusher", topic: Topics().registrations)
            report.pushing = .now - begin
            report.packages = try await self.versions() - versionsBefore
            report.pushes = self.journal.delivered
            report.changes = self.plan.changeCount
            report.stories = self.plan.stories.count
            report.devices = self.devices.count
            try await self.awaitDevices()
            self.journal.finish()
            group.cancelAll()
            var failures: [String] = []
            while let result = await group.nextResult() {
                if case .success(let failure?) = result { failures.append(failure) }
            }
            return failures
        }
        report.differences += failures
        let check = ReplayCheck(
            stack: self.stack, http: self.http, tokens: self.tokens,
            orders: self.plan.stories.map { ExpectedOrder(identifier: $0.order.identifier, document: $0.expected) },
            samples: self.plan.samples(samples, seed: self.seed), followed: Set(self.devices.keys))
        let served = await check.packages(&report)
        await check.devices(self.devices, served: served, &report)
        try await check.deadLetters(self.broken.withLock { $0 }, since: deadLetters, &report)
        await self.producer.close()
        await self.admin.close()
        await self.http.close()
        return report
    }

    private func publish(placed: (Int) -> Void) async throws {
        let begin = ContinuousClock.now
        var sent = 0
        while sent < self.plan.steps.count {
            let due = self.pace.due(sent: sent, of: self.plan.steps.count, after: .now - begin)
            guard due > 0 else {
                try await Task.sleep(until: begin + self.pace.moment(of: sent))
                continue
            }
            let steps = self.plan.steps[sent..<sent + due]
            let results = await self.producer.produce(steps.map(\.message))
            for (step, result) in zip(steps, results) {
                let position = try result.get()
                if let kind = step.broken {
                    let origin = "\(position.topic)/\(position.partition)/\(position.offset)"
                    self.broken.withLock { $0[origin] = BrokenRecord(kind: kind, message: step.message) }
                }
                if let story = step.placed { placed(story) }
            }
            sent += due
            self.published.store(sent, ordering: .relaxed)
        }
    }

    /// Acts as one device: fetches its order as soon as it exists, registers, follows pushes until the journal ends.
    ///
    /// - Returns: the error, if there was one.
    private func follow(_ story: Int, _ device: WalletDevice) async -> String? {
        let order = self.plan.stories[story].order.identifier
        do {
            let key = OrderKey(orderType: self.stack.orderType, order: try OrderIdentifier(order))
            await device.add(order: order, token: self.tokens.token(for: key))
            let pushes = self.journal.subscribe(device.pushToken)
            try await self.patiently { _ = try await device.firstFetch(order, within: Self.patience) }
            try await self.patiently { _ = try await device.register(order) }
            for await _ in pushes { try await self.patiently { _ = try await device.react() } }
            return nil
        } catch {
            return "device of order \(order): \(error)"
        }
    }

    /// Retries an action with backoff while the gateway may be unavailable only temporarily, as Wallet does.
    private func patiently(_ action: () async throws -> Void) async throws {
        let end = ContinuousClock.now + Self.patience
        var pause = Duration.milliseconds(200)
        while true {
            do {
                return try await action()
            } catch let error as ToolError where error.isPassing && .now < end {
                try await Task.sleep(for: pause)
                pause = min(pause * 2, .seconds(5))
            }
        }
    }

    private func awaitLag(group: String, topic: String) async throws {
        let end = ContinuousClock.now + Self.patience
        while true {
            let lag = try await self.admin.lag(group: group, topic: topic).values.reduce(0, +)
            if lag == 0 { return }
            guard .now < end else {
                throw ToolError(.timeout, "waiting for \(group) on \(topic): \(lag) records behind")
            }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    /// Waits until the pushes have stopped and each device has the gateway's version.
    private func awaitDevices() async throws {
        let end = ContinuousClock.now + .seconds(60)
        while .now < end {
            if self.journal.quietFor > .seconds(2) {
                var behind = 0
                for (story, device) in self.devices {
                    let order = self.plan.stories[story].order.identifier
                    let current = OrderFile.document(await device.order(order) ?? .null)
                    if current != self.plan.stories[story].expected { behind += 1 }
                }
                if behind == 0 { return }
            }
            try await Task.sleep(for: .milliseconds(200))
        }
    }

    private func showProgress(since begin: ContinuousClock.Instant) async throws -> String? {
        while true {
            try await Task.sleep(for: .seconds(1))
            Console.progress(
                "\(Console.milliseconds(.now - begin)): \(self.published.load(ordering: .relaxed)) of "
                    + "\(self.plan.steps.count) published, \(self.journal.delivered) pushes")
        }
    }

    /// Returns the number of versions on `waybill.orders`, each of which cost one signature.
    private func versions() async throws -> Int {
        Int(try await self.admin.endOffsets(Topics().orders).values.reduce(0, +))
    }
}
