import Foundation
import Kafka
import Model

/// Takes each example order through its life and prints each step.
final class DemoWalk: Sendable {
    let stack: StackEnvironment
    let phone: WalletDevice
    let producer: KafkaProducer
    private let journal: APNSJournal
    private let pushes: DemoPushes
    private let tokens: DerivedTokens
    private let patience: Duration
    /// The time between Wallet's first fetch and the publication of the order by the shop's systems.
    private static let publicationDelay = Duration.milliseconds(300)
    private let begin = ContinuousClock.now

    init(
        stack: StackEnvironment, phone: WalletDevice, producer: KafkaProducer, journal: APNSJournal,
        pushes: DemoPushes, tokens: DerivedTokens, patience: Duration
    ) {
        self.stack = stack
        self.phone = phone
        self.producer = producer
        self.journal = journal
        self.pushes = pushes
        self.tokens = tokens
        self.patience = patience
    }

    private func say(_ mark: String, _ text: String, since start: ContinuousClock.Instant? = nil) {
        let took = start.map { "  (\(Console.milliseconds(.now - $0)))" } ?? ""
        Console.line("  \(mark.padding(toLength: 10, withPad: " ", startingAt: 0)) \(text)\(took)")
    }

    /// Places, fetches and registers one order, then publishes and follows each of its updates.
    func follow(file: String, content: [UInt8]) async throws {
        let (document, name) = try OrderFile.document(from: JSON(parsing: content), keepsToken: false)
        let key = OrderKey(orderType: self.stack.orderType, order: try OrderIdentifier(name ?? ""))
        let order = key.order.rawValue
        let merchant = document.object?["merchant"]?.object?["displayName"]?.string ?? "?"
        Console.line("\nOrder \(order) at \(merchant)  [\(file)]")

        var start = ContinuousClock.now
        await self.phone.add(order: order, token: self.tokens.token(for: key))
        let report: PackageReport
        (report, start) = try await withThrowingTaskGroup(of: PackageReport.self) { group in
            group.addTask { [phone, patience] in try await phone.firstFetch(order, within: patience) }
            self.say("asked", "Wallet fetches with the token that checkout derived, before anything was published")
            try await Task.sleep(for: Self.publicationDelay)
            let published = ContinuousClock.now
            try await self.publish(.replaced, document, key)
            self.say("published", "\(CloudEvent.ChangeType.replaced.rawValue) on Kafka")
            guard let report = try await group.next() else { throw CancellationError() }
            return (report, published)
        }
        self.say("packaged", "signed and in Redis; the gateway answered the fetch that it had held", since: start)
        self.say("verified", self.findings(report))
        start = .now
        _ = try await self.phone.register(order)
        self.say("registered", "the phone wants to be told; Kafka has acknowledged it", since: start)
        // The order changed a moment ago, so a push follows in case the change and the registration overlapped.
        _ = try await self.pushes.next(within: self.patience)
        self.say("pushed", "once more, since the order is so new", since: start)
        _ = try await self.phone.react()

        for update in DemoStory.updates(of: file) { try await self.follow(update, key) }
    }

    private func follow(_ update: DemoStory.Update, _ key: OrderKey) async throws {
        let order = key.order.rawValue
        let before = await self.phone.versions(order)
        let start = ContinuousClock.now
        try await self.publish(update.type, update.data, key)
        Console.line("  --")
        self.say("published", "\(update.type.rawValue): \(update.headline)")
        let version = try await self.nextVersion(of: order, since: start)
        self.say("fetched", "listed as changed, version \(before + 1) of this order", since: start)
        self.say("verified", self.findings(version))
        guard case .notModified = try await self.phone.fetch(order) else {
            throw ToolError(.check, "fetching \(order) again: it should not have changed")
        }
    }

    /// Waits until a push leads to a new version. A push only says that something changed, so an earlier one may have
    /// been about the previous version.
    private func nextVersion(of order: String, since start: ContinuousClock.Instant) async throws -> PackageReport {
        while .now < start + self.patience {
            let push = try await self.pushes.next(within: self.patience)
            let listed = try await self.phone.react()
            guard let report = listed.first(where: { $0.order == order })?.report else { continue }
            self.say("pushed", "APNs told the phone that something of \(push.topic) changed", since: start)
            return report
        }
        throw ToolError(.timeout, "listing changed orders: \(order) is not among them")
    }

    /// Checks the last versions with third-party programs, then removes an order.
    func finish() async throws {
        Console.line("\nThe last version of each order, judged by programs that are not ours")
        let roots = try readFile(self.stack.roots)
        for order in await self.phone.orderIdentifiers {
            let package = await self.phone.package(order)
            try await RunProgram.withScratchDirectory { directory in
                let file = directory.appendingPathComponent("\(order).order")
                try Data(package).write(to: file)
                let unzip = try await RunProgram.run(["unzip", "-tqq", file.path])
                guard unzip.status == 0 else { throw ToolError(.check, "unzip -t \(order): \(unzip.output)") }
            }
            let report = await PackageVerifier.byOpenSSL(package, roots: roots)
            if let violation = report.violations.first { throw ToolError(.check, "verifying \(order): \(violation)") }
            self.say("accepted", "\(order): unzip -t, openssl cms -verify")
        }
        if let order = await self.phone.orderIdentifiers.last {
            let key = OrderKey(orderType: self.stack.orderType, order: try OrderIdentifier(order))
            Console.line("\nOrder \(order) is removed")
            let start = ContinuousClock.now
            try await self.publish(.removed, nil, key)
            self.say("published", CloudEvent.ChangeType.removed.rawValue)
            try await self.awaitRemoval(order)
            self.say("gone", "Wallet gets 401 from now on", since: start)
        }
        Console.line(
            "\nDone in \(Console.milliseconds(.now - self.begin)): every version was packaged, pushed, fetched and verified; "
                + "\(self.journal.delivered) pushes.")
    }

    private func awaitRemoval(_ order: String) async throws {
        let end = ContinuousClock.now + self.patience
        while true {
            switch try await self.phone.fetch(order) {
            case .unauthorized: return
            case .version, .notModified, .unavailable: break
            }
            guard .now < end else { throw ToolError(.timeout, "removing \(order): it is still there") }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    private func publish(_ type: CloudEvent.ChangeType, _ data: JSON?, _ key: OrderKey) async throws {
        let event = CloudEvent(
            id: randomHex(bytes: 8), source: "/demo/order-management", type: type.rawValue, subject: key.description,
            time: RFC3339.format(epochSeconds: Int64(Date().timeIntervalSince1970)), data: data)
        let topic = Topics().orderChanges
        _ = try await self.producer.produce(event.message(topic: topic, mode: .structured))
    }

    private func findings(_ report: PackageReport) -> String {
        let members = report.order?.object
        let fulfillments = (members?["fulfillments"]?.array ?? []).compactMap { $0.object?["status"]?.string }
        let status = members?["status"]?.string ?? "?"
        let parts = fulfillments.isEmpty ? "" : " [\(fulfillments.joined(separator: ", "))]"
        return
            "archive, manifest, certificates and signature in order: \(report.files.count) files, status \(status)\(parts)"
    }
}
