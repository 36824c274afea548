import APNS
import Brands
import Foundation
import Kafka
import Model
import NIOPosix
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Pusher

/// Credentials that change while notifications are in flight.
@Suite(.server) struct PushClientsTests {
    private struct Fixture: Sendable {
        let directory: TemporaryDirectory
        let apns: APNSSimulator
        let library: BrandLibrary
        let clients: PushClients
        let scheduler: PushScheduler
        let done: Flag
        /// The number of times that a credential was replaced.
        let renewed: Flag
        let type: OrderTypeIdentifier

        func look() -> [BrandEvent] {
            self.library.look(isForced: true, nowEpochSeconds: Int64(Date().timeIntervalSince1970))
        }

        /// Installs a new certificate from the same authority.
        func renew() throws {
            let folder = self.directory.path("renewed-\(UUID().uuidString.prefix(8))")
            let renewed = try DevelopmentCertificates.make(
                in: folder,
                .init(orderType: PusherBrandFixture.orderType, authority: self.directory.path("certificates")))
            for (from, to) in [(renewed.certificate, "certificate.pem"), (renewed.key, "key.pem")] {
                try Data(contentsOf: URL(filePath: from)).write(
                    to: URL(filePath: self.directory.path("brands/shop/\(to)")))
            }
        }

        /// Changes that concern one device each.
        func put(_ count: Int, from first: Int) throws {
            let records = (first..<first + count).map { number in
                KafkaRecord(
                    topic: "orders", partition: 0, offset: Int64(number), timestampMilliseconds: -1, key: nil,
                    value: nil)
            }
            let numbers = self.scheduler.receive(records.map { ($0.receipt, -1) })
            let found = try (0..<count).map { index in
                PushLookup.Found(
                    orderType: self.type, order: try OrderIdentifier("o"),
                    device: try DeviceIdentifier("d\(first + index)"),
                    registration: RegistrationRecord(
                        pushToken: try PushToken(PusherFixture.token(first + index)), registeredEpochMilliseconds: 0),
                    records: [index])
            }
            self.scheduler.add(found, numbers)
        }
    }

    private func run(
        failing: Flag = Flag(), _ body: @Sendable (Fixture) async throws -> Void
    ) async throws {
        let directory = try TemporaryDirectory("push-clients")
        let certificates = try DevelopmentCertificates.copy(to: directory.path("certificates"))
        try DevelopmentBrand.make(
            in: directory.path("brands/shop"), orderType: PusherBrandFixture.orderType, certificates: certificates)
        let apns = try await APNSSimulator.start(
            APNSSimulatorConfiguration(certificates: directory.path("certificates")))
        let roots = try directory.read("certificates/root.pem")
        let library = try BrandLibrary(directory: directory.path("brands"), webServiceURL: "https://unused.invalid")
        let endpoint = try APNSEndpoint(url: apns.url)
        let (done, renewed) = (Flag(), Flag())
        var limits = PushLimits()
        limits.window = .zero
        // Nothing moves devices to the pending topic here.
        (limits.parkedHold, limits.schedulerHold) = (.seconds(3600), .seconds(3600))
        let scheduler = PushScheduler(
            limits: limits, pendingTopic: "pending", wallClock: { Int64(Date().timeIntervalSince1970 * 1000) })
        scheduler.whenFinished { receipts in done.count.withLock { $0 += receipts.count } }
        let clients = PushClients(library.brands, scheduler: scheduler, onRenewed: renewed.raise) {
            type, push, generation in
            if failing.count.withLock({ $0 == 1 }) { throw BadCredential() }
            return try APNSClient(
                endpoint: endpoint, credential: APNSCredential(push, ProviderTokenSources()), rootsPEM: roots,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                onReplies: { scheduler.receive($0, of: type, generation: generation) })
        }
        let fixture = Fixture(
            directory: directory, apns: apns, library: library, clients: clients,
            scheduler: scheduler, done: done, renewed: renewed,
            type: try OrderTypeIdentifier(PusherBrandFixture.orderType)
        )
        let result: Result<Void, any Error>
        do {
            result = try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    while !Task.isCancelled {
                        scheduler.advance()
                        try await Task.sleep(for: .milliseconds(2))
                    }
                }
                defer { group.cancelAll() }
                return .success(try await body(fixture))
            }
        } catch {
            result = .failure(error)
        }
        scheduler.stop()
        await clients.close()
        await apns.stop()
        try result.get()
    }

    private struct BadCredential: Error {}

    /// Adds changes to the scheduler one after the other, each for another device.
    ///
    /// - Returns: the number of changes.
    private static func push(_ fixture: Fixture, until isEnough: Flag) async throws -> Int {
        var sent = 0
        while isEnough.count.withLock({ $0 }) == 0 {
            try fixture.put(200, from: sent)
            sent += 200
            try await eventually("done") { fixture.done.count.withLock { $0 } > sent - 1000 }
        }
        return sent
    }

    @Test(.timeLimit(.minutes(2)))
    func renewingCredentialsUnderLoadLosesNoNotification() async throws {
        try await self.run { fixture in
            let isEnough = Flag()
            try await withThrowingTaskGroup(of: Int.self) { group in
                group.addTask { try await Self.push(fixture, until: isEnough) }
                for _ in 0..<3 {
                    let before = try await fixture.apns.deliveries().deliveries.count
                    try fixture.renew()
                    #expect(fixture.look() == [.changed(fixture.type)])
                    #expect(await fixture.clients.update(fixture.library.brands).isEmpty)
                    try await eventually("more with the new one") {
                        try await fixture.apns.deliveries().deliveries.count > before + 1000
                    }
                }
                isEnough.count.withLock { $0 = 1 }
                let sent = try await group.next() ?? 0
                try await eventually("all done") { fixture.done.count.withLock { $0 } == sent }
                let deliveries = try await fixture.apns.deliveries().deliveries
                #expect(Set(deliveries.filter { $0.status == 200 }.map(\.token)).count == sent)
            }
            for (_, counts) in fixture.scheduler.takeTallies() {
                #expect(counts.dropped.isEmpty, "\(counts.dropped)")
            }
            #expect(fixture.renewed.count.withLock { $0 } == 3)
        }
    }

    @Test func aClientIsKeptWhileItsCredentialIsUnchanged() async throws {
        try await self.run { fixture in
            try fixture.put(1, from: 0)
            try await eventually("notified") { fixture.done.count.withLock { $0 } == 1 }
            let connections = try await fixture.apns.connections().map(\.number)
            let picture = Data(SampleFile.png(seed: 1, side: 64))
            try picture.write(to: URL(filePath: fixture.directory.path("brands/shop/assets/x.png")))
            #expect(fixture.look() == [.changed(fixture.type)])
            #expect(await fixture.clients.update(fixture.library.brands).isEmpty)
            try fixture.put(1, from: 1)
            try await eventually("notified") { fixture.done.count.withLock { $0 } == 2 }
            // The pool may have opened more since; none was closed.
            #expect(Set(try await fixture.apns.connections().map(\.number)).isSuperset(of: connections))
            #expect(fixture.renewed.count.withLock { $0 } == 0)
        }
    }

    @Test func anUnusableNewCredentialKeepsTheExistingClient() async throws {
        let isFailing = Flag()
        try await self.run(failing: isFailing) { fixture in
            try fixture.renew()
            #expect(fixture.look() == [.changed(fixture.type)])
            isFailing.count.withLock { $0 = 1 }
            let failures = await fixture.clients.update(fixture.library.brands)
            #expect(failures.map(\.type) == [fixture.type])
            try fixture.put(1, from: 0)
            try await eventually("notified") { fixture.done.count.withLock { $0 } == 1 }
        }
    }

    @Test func anUnusableInitialCredentialIsRetriedOnUpdate() async throws {
        let isFailing = Flag()
        isFailing.count.withLock { $0 = 1 }
        try await self.run(failing: isFailing) { fixture in
            #expect(fixture.clients.failures.map(\.type) == [fixture.type])
            isFailing.count.withLock { $0 = 0 }
            #expect(await fixture.clients.update(fixture.library.brands).isEmpty)
            try fixture.put(1, from: 0)
            try await eventually("notified") { fixture.done.count.withLock { $0 } == 1 }
        }
    }

    private final class Flag: Sendable {
        let count = Mutex(0)

        func raise(_ type: OrderTypeIdentifier) { self.count.withLock { $0 += 1 } }
    }
}
