import Model
import NIOCore
import NIOPosix
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import APNS

extension WireTests {
    /// Mutual authentication of client and server.
    @Suite(.server) struct APNSCredentialTests {
        private func source(_ counter: Counter) -> ProviderTokenSource {
            ProviderTokenSource(
                keyIdentifier: "KEY1234567", teamIdentifier: "TEAM123456",
                sign: { _ in
                    counter.value.withLock { $0 += 1 }
                    return Array(repeating: 1, count: 64)
                })
        }

        private final class Counter: Sendable {
            let value = Mutex(0)
        }

        @Test func oneMintedTokenIsSentWithEveryRequest() async throws {
            let counter = Counter()
            try await withClient(configuration: quickConfiguration(), credential: .token(self.source(counter))) { _ in
                [.answer(200)]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(50))
                #expect(outcomes.allSatisfy { $0.status == 200 })
                let tokens = Set(server.requests.map { $0.headers["authorization"] ?? "" })
                #expect(tokens.count == 1)
                #expect(tokens.first?.hasPrefix("bearer ey") == true)
                #expect(counter.value.withLock { $0 } == 1)
            }
        }

        @Test func onlyOneStreamIsOpenedUntilTheTokenIsAccepted() async throws {
            let counter = Counter()
            var configuration = quickConfiguration()
            configuration.closeTimeout = .milliseconds(500)
            try await withClient(configuration: configuration, credential: .token(self.source(counter))) { request in
                request.index == 0 ? [.hold] : [.answer(200)]
            } body: { client, server in
                async let outcomes = client.send(try makeNotifications(5))
                try await eventually("the first request") { server.requests.count == 1 }
                #expect(server.mostOpen == 1)
                await client.close()
                _ = try await outcomes
                #expect(server.requests.count == 1)
            }
        }

        @Test func tooManyUpdatesMintNothing() async throws {
            let counter = Counter()
            try await withClient(configuration: quickConfiguration(), credential: .token(self.source(counter))) {
                request in
                request.index < 3 ? [.answer(429, #"{"reason":"TooManyProviderTokenUpdates"}"#)] : [.answer(200)]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(6))
                #expect(outcomes.map(\.status) == [429, 429, 429, 200, 200, 200])
                #expect(counter.value.withLock { $0 } == 1)
            }
        }

        @Test func aSecondExpiredTokenAnswerReplacesTheConnection() async throws {
            let counter = Counter()
            try await withClient(configuration: quickConfiguration(), credential: .token(self.source(counter))) {
                request in
                request.connection == 0 ? [.answer(403, #"{"reason":"ExpiredProviderToken"}"#)] : [.answer(200)]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(3))
                #expect(outcomes.map(\.status) == [403, 403, 200], "one may be about its device")
                #expect(server.connections == 2)
                #expect(counter.value.withLock { $0 } == 1, "not within twenty minutes")
            }
        }

        @Test func aTokenRefusedForOneDeviceKeepsTheConnection() async throws {
            try await withClient(configuration: quickConfiguration(), credential: .token(self.source(Counter()))) {
                request in
                number(request) % 3 == 1 ? [.answer(403, #"{"reason":"ExpiredProviderToken"}"#)] : [.answer(200)]
            } body: { client, server in
                for round in 0..<30 { _ = await client.send(try makeNotifications(1, from: round)) }
                #expect(server.connections == 1)
                #expect(server.requests.count == 30)
            }
        }

        @Test func aKeyThatCannotSignIsAnError() async throws {
            let source = ProviderTokenSource(keyIdentifier: "KEY1234567", teamIdentifier: "TEAM123456") { _ in
                throw APNSError(.configuration, "broken")
            }
            try await withClient(configuration: quickConfiguration(), credential: .token(source)) { _ in
                [.answer(200)]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(2))
                #expect(outcomes.allSatisfy { $0.error?.code == .credential })
                #expect(server.requests.isEmpty)
            }
        }

        @Test func theCertificateIsShownToAServerThatAsks() async throws {
            let certificates = try Certificates.shared.get()
            try await withClient(configuration: quickConfiguration(), clientRoots: certificates.root) { _ in
                [.answer(200)]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(3))
                #expect(outcomes.allSatisfy { $0.status == 200 })
            }
        }

        @Test func aServerThatRequiresACertificateRefusesATokenClient() async throws {
            let certificates = try Certificates.shared.get()
            var configuration = quickConfiguration()
            configuration.requestTimeout = .seconds(1)
            try await withClient(
                configuration: configuration, credential: .token(self.source(Counter())), clientRoots: certificates.root
            ) { _ in
                [.answer(200)]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(3))
                #expect(outcomes.allSatisfy { [.connectionLost, .tls].contains($0.error?.code) })
                #expect(outcomes.contains { $0.error?.message.contains("CERTIFICATE_REQUIRED") == true }, "\(outcomes)")
                #expect(server.requests.isEmpty)
            }
        }

        @Test func aServerUnderAnotherRootIsRefusedWithAReason() async throws {
            var configuration = quickConfiguration()
            configuration.requestTimeout = .milliseconds(800)
            let certificates = try Certificates.shared.get()
            try await withClient(configuration: configuration, roots: certificates.strangeRoot) { _ in
                [.answer(200)]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(2))
                #expect(outcomes.allSatisfy { $0.error?.code == .tls })
                #expect(outcomes[0].error?.message.contains("trusted root") == true, "\(outcomes[0])")
                #expect(server.requests.isEmpty)
            }
        }

        @Test func anAddressIsCheckedAgainstTheCertificateToo() async throws {
            try await withClient(configuration: quickConfiguration(), host: "127.0.0.1") { _ in
                [.answer(200)]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(1))
                #expect(outcomes.map(\.status) == [200])
            }
            var configuration = quickConfiguration()
            configuration.requestTimeout = .milliseconds(800)
            // Another address of the same machine, which the certificate does not name.
            try await withClient(configuration: configuration, host: "127.0.0.2") { _ in
                [.answer(200)]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(1))
                #expect(outcomes[0].error.map { [.tls, .connecting].contains($0.code) } == true)
            }
        }

        @Test func invalidPEMIsRefusedAtTheStart() throws {
            let certificates = try Certificates.shared.get()
            let endpoint = try APNSEndpoint(url: "https://localhost")
            let loop = NIOSingletons.posixEventLoopGroup
            let token = APNSCredential.token(self.source(Counter()))
            #expect(throws: APNSError(.configuration, "")) {
                try APNSClient(endpoint: endpoint, credential: token, rootsPEM: [1, 2], eventLoopGroup: loop)
            }
            for (chain, key) in [
                ([UInt8](), certificates.clientKey), (certificates.client, []),
                (certificates.client, certificates.serverKey),
            ] {
                #expect(throws: APNSError(.configuration, "")) {
                    try APNSClient(
                        endpoint: endpoint, credential: .certificate(chainPEM: chain, keyPEM: key),
                        rootsPEM: certificates.root, eventLoopGroup: loop)
                }
            }
        }
    }
}
