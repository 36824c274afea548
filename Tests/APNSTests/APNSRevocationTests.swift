import NIOCore
import TestKit
import TestTraits
import Testing

@testable import APNS

extension WireTests {
    /// A certificate that APNs has stopped accepting.
    @Suite(.server) struct APNSRevocationTests {
        @Test func aBadCertificateAnswerReplacesAllConnections() async throws {
            let log = EventLog()
            try await withClient(configuration: poolConfiguration(log, 2...2)) { request in
                // The first two connections work until a request on one of them is refused; the other sees no refusal.
                guard request.connection < 2 else { return [.answer(200)] }
                return number(request) == 99 ? [.answer(403, #"{"reason":"BadCertificate"}"#)] : [.answer(200)]
            } body: { client, server in
                _ = await client.send(try makeNotifications(1))
                try await eventually("two connections") { log.count(.connected) == 2 }
                let outcomes = await client.send(try makeNotifications(1, from: 99))
                #expect(outcomes.map(\.answer?.reason) == ["BadCertificate"])
                try await eventually("both are replaced") { log.count(.replaced(.credential)) == 2 }
                try await eventually("two new ones") { log.count(.connected) == 4 }
                #expect(try await client.send(makeNotifications(10)).allSatisfy { $0.status == 200 })
                #expect(server.requests.suffix(10).allSatisfy { $0.connection >= 2 })
            }
        }

        @Test func anExpiredCertificateIsReportedAsACredentialError() async throws {
            let directory = try TemporaryDirectory("apns-expired")
            let files = try DevelopmentCertificates.make(
                in: directory.path,
                DevelopmentCertificates.Options(
                    orderType: "order.com.example.shop", notBeforeEpochSeconds: 1_577_836_800,
                    notAfterEpochSeconds: 1_580_515_200))
            func read(_ path: String) throws -> [UInt8] {
                try directory.read(String(path.dropFirst(directory.path.count + 1)))
            }
            let log = EventLog()
            var configuration = poolConfiguration(log, 1...2)
            configuration.requestTimeout = .seconds(1)
            let credential = APNSCredential.certificate(
                chainPEM: try read(files.certificate) + read(files.intermediate), keyPEM: try read(files.key))
            try await withClient(
                configuration: configuration, credential: credential, clientRoots: try read(files.root)
            ) { _ in
                [.answer(200)]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(3))
                #expect(outcomes.allSatisfy { $0.error?.code == .credential }, "\(outcomes)")
                #expect(server.requests.isEmpty)
                #expect(log.all.count < 60, "attempts wait longer and longer")
            }
        }
    }
}
