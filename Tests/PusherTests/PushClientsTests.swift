import APNS
import Foundation
import Model
import NIOPosix
import Packaging
import Synchronization
import TestKit
import Testing

@testable import Pusher

/// Credentials that change while notifications are on their way.
@Suite struct PushClientsTests {
    private struct Scene: Sendable {
        let directory: TemporaryDirectory
        let apns: APNSSimulator
        let library: BrandLibrary
        let clients: PushClients
        let type: OrderTypeIdentifier

        func look() -> [BrandEvent] {
            self.library.look(isForced: true, nowEpochSeconds: Int64(Date().timeIntervalSince1970))
        }

        /// Puts a new certificate from the same authority in place.
        func renew() throws {
            let folder = self.directory.path("renewed-\(UUID().uuidString.prefix(8))")
            let renewed = try DevelopmentCertificates.make(
                in: folder,
                .init(orderType: PusherFixture.orderType, authority: self.directory.path("certificates")))
            for (from, to) in [(renewed.certificate, "certificate.pem"), (renewed.key, "key.pem")] {
                try Data(contentsOf: URL(filePath: from)).write(
                    to: URL(filePath: self.directory.path("brands/shop/\(to)")))
            }
        }

        func notifications(_ count: Int, from first: Int) throws -> [PushNotification] {
            try (first..<first + count).map {
                PushNotification(
                    deviceToken: try PushToken(PusherScene.token($0)), topic: self.type,
                    expirationEpochSeconds: Int64(Date().timeIntervalSince1970) + 3600)
            }
        }
    }

    private func run(
        failing: @escaping @Sendable () -> Bool = { false }, _ body: @Sendable (Scene) async throws -> Void
    ) async throws {
        let directory = try TemporaryDirectory("push-clients")
        let certificates = try DevelopmentCertificates.make(
            in: directory.path("certificates"), orderType: PusherFixture.orderType)
        try DevelopmentBrand.make(
            in: directory.path("brands/shop"), orderType: PusherFixture.orderType, certificates: certificates)
        let apns = try await APNSSimulator.start(
            APNSSimulatorConfiguration(certificates: directory.path("certificates")))
        let roots = try directory.read("certificates/root.pem")
        let library = try BrandLibrary(directory: directory.path("brands"), webServiceURL: "https://unused.invalid")
        let endpoint = try APNSEndpoint(url: apns.url)
        let clients = try PushClients(library.brands) { _, push in
            if failing() { throw BadCredential() }
            return try APNSClient(
                endpoint: endpoint, credential: APNSCredential(push), rootsPEM: roots,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        }
        let scene = Scene(
            directory: directory, apns: apns, library: library, clients: clients,
            type: try OrderTypeIdentifier(PusherFixture.orderType))
        let result: Result<Void, any Error>
        do { result = .success(try await body(scene)) } catch { result = .failure(error) }
        await clients.close()
        await apns.stop()
        try result.get()
    }

    private struct BadCredential: Error {}

    /// Sends batch after batch, each notification to another device.
    ///
    /// - Returns: how many.
    private static func push(_ scene: Scene, until isEnough: Flag) async throws -> Int {
        var sent = 0
        while !isEnough.value.withLock({ $0 }) {
            let batch = try scene.notifications(200, from: sent)
            try await scene.clients.with { clients in
                for outcome in try await #require(clients[scene.type]).send(batch) {
                    if case .delivered = verdict(of: outcome) { continue }
                    Issue.record("\(outcome)")
                }
            }
            sent += batch.count
        }
        return sent
    }

    @Test(.timeLimit(.minutes(2)))
    func newCredentialsUnderLoadLoseNoNotification() async throws {
        try await self.run { scene in
            let isEnough = Flag()
            try await withThrowingTaskGroup(of: Int.self) { group in
                group.addTask { try await Self.push(scene, until: isEnough) }
                for _ in 0..<3 {
                    let before = try await scene.apns.deliveries().deliveries.count
                    try scene.renew()
                    #expect(scene.look() == [.changed(scene.type)])
                    #expect(await scene.clients.update(scene.library.brands).isEmpty)
                    try await eventually("more with the new one") {
                        try await scene.apns.deliveries().deliveries.count > before + 1000
                    }
                }
                isEnough.value.withLock { $0 = true }
                let sent = try await group.next() ?? 0
                let deliveries = try await scene.apns.deliveries().deliveries
                #expect(Set(deliveries.filter { $0.status == 200 }.map(\.token)).count == sent)
            }
            // The old ones are closed, and hold no connection.
            try await eventually("one connection") { try await scene.apns.connections().count == 1 }
        }
    }

    @Test func aClientStaysWhileItsCredentialDoesAndWhileItIsInHand() async throws {
        try await self.run { scene in
            let picture = Data(SampleFile.png(seed: 1, side: 64))
            try picture.write(to: URL(filePath: scene.directory.path("brands/shop/assets/x.png")))
            let first = Mutex<APNSClient?>(nil)
            try await scene.clients.with { clients in first.withLock { $0 = clients[scene.type] } }
            #expect(scene.look() == [.changed(scene.type)])
            #expect(await scene.clients.update(scene.library.brands).isEmpty)
            try await scene.clients.with { clients in
                let client = try #require(clients[scene.type])
                #expect(first.withLock { $0 === client })
                try scene.renew()
                #expect(scene.look() == [.changed(scene.type)])
                #expect(await scene.clients.update(scene.library.brands).isEmpty)
                // Replaced, but in hand: what it is given still arrives.
                let outcomes = await client.send(try scene.notifications(10, from: 0))
                #expect(outcomes.allSatisfy { if case .delivered = verdict(of: $0) { true } else { false } })
            }
            try await eventually("closed") { try await scene.apns.connections().isEmpty }
            try await scene.clients.with { clients in #expect(first.withLock { clients[scene.type] !== $0 }) }
        }
    }

    @Test func aCredentialThatCannotBeUsedLeavesTheClientThatWasThere() async throws {
        let isFailing = Flag()
        try await self.run(failing: { isFailing.value.withLock { $0 } }) { scene in
            try scene.renew()
            #expect(scene.look() == [.changed(scene.type)])
            isFailing.value.withLock { $0 = true }
            let failures = await scene.clients.update(scene.library.brands)
            #expect(failures.map(\.type) == [scene.type])
            try await scene.clients.with { clients in
                let outcomes = await clients[scene.type]?.send(try scene.notifications(1, from: 0)) ?? []
                #expect(outcomes.count == 1)
                #expect(outcomes.allSatisfy { if case .delivered = verdict(of: $0) { true } else { false } })
            }
        }
    }

    private final class Flag: Sendable { let value = Mutex(false) }
}
