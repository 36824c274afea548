import Dispatch
import Model
import NIOCore
import NIOPosix
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import APNS

extension WireTests {
    /// The addresses to which the client connects.
    @Suite(.server) struct APNSAddressTests {
        private func resolver(
            _ addresses: [String], _ asked: Counter = Counter()
        ) -> HostResolver {
            HostResolver { _, port throws(APNSError) in
                asked.value.withLock { $0 += 1 }
                return addresses.compactMap { try? SocketAddress(ipAddress: $0, port: port) }
            }
        }

        private final class Counter: Sendable { let value = Mutex(0) }

        @Test func connectionsSpreadOverAddressesResolvedForEachAttempt() async throws {
            let log = EventLog()
            let asked = Counter()
            var configuration = poolConfiguration(log, 3...3)
            configuration.resolver = self.resolver(["127.0.0.1", "127.0.0.2", "127.0.0.3"], asked)
            try await withClient(configuration: configuration, bind: "0.0.0.0") { request in
                request.connection == 0 && request.index == 1
                    ? [.goAway(reason: "Shutdown"), .answer(200)]
                    : [.answer(200)]
            } body: { client, server in
                _ = await client.send(try makeNotifications(1))
                try await eventually("three connections") { log.count(.connected) == 3 }
                #expect(server.addresses.sorted() == ["127.0.0.1", "127.0.0.2", "127.0.0.3"])
                let before = asked.value.withLock { $0 }
                try await eventually("a replacement") {
                    client.submit((try? makeRequests(3)) ?? [])
                    return log.count(.connected) == 4
                }
                #expect(server.addresses[3] == server.addresses[0], "the address that has none now")
                #expect(asked.value.withLock { $0 } > before)
            }
        }

        /// The host at 127.0.0.1 answers every request with 503 immediately; the other host works.
        @Test func aHostThatFailsEverythingIsLeftForAnother() async throws {
            let log = EventLog()
            var configuration = poolConfiguration(log, 2...2)
            configuration.resolver = self.resolver(["127.0.0.1", "127.0.0.2", "127.0.0.3"])
            try await withClient(configuration: configuration, bind: "0.0.0.0") { request in
                request.address == "127.0.0.1" ? [.answer(503)] : [.after(.milliseconds(20), [.answer(200)])]
            } body: { client, server in
                try await eventually("the bad host is left") {
                    client.submit((try? makeRequests(4)) ?? [])
                    return log.count(.replaced(.serverErrors)) == 1
                }
                try await eventually("the third connection") { log.count(.connected) == 3 }
                #expect(server.addresses == ["127.0.0.1", "127.0.0.2", "127.0.0.3"])
                #expect(try await client.send(makeNotifications(40)).allSatisfy { $0.status == 200 })
            }
        }

        @Test func aCertificateWithoutTheHostNameIsRefused() async throws {
            for (names, isTaken) in [("IP:127.0.0.1", false), ("DNS:localhost,IP:127.0.0.1", true)] {
                let certificate = try await ServerCertificate(names: names)
                let identity = (try bytes(certificate.file), try bytes(certificate.key))
                var configuration = quickConfiguration()
                configuration.requestTimeout = .seconds(isTaken ? 10 : 1)
                configuration.resolver = self.resolver(["127.0.0.1"])
                try await withClient(configuration: configuration, roots: identity.0, identity: identity) { _ in
                    [.answer(200)]
                } body: { client, server in
                    let outcome = try await client.send(makeNotifications(1))[0]
                    #expect(outcome.status == (isTaken ? 200 : nil))
                    #expect(outcome.error?.code == (isTaken ? nil : .tls))
                    #expect(isTaken || outcome.error?.message.contains("not for localhost") == true)
                    #expect(server.requests.count == (isTaken ? 1 : 0))
                }
            }
        }

        @Test func anEndpointUsedThroughAProxyNeedsAHostName() throws {
            let certificates = try Certificates.shared.get()
            let error = #expect(throws: APNSError.self) {
                _ = try APNSClient(
                    endpoint: try APNSEndpoint(url: "https://17.188.1.1"),
                    credential: .certificate(chainPEM: certificates.client, keyPEM: certificates.clientKey),
                    rootsPEM: nil, proxy: try APNSProxy(url: "http://proxy.example:3128"),
                    eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
            }
            #expect(error?.code == .configuration)
            #expect(error?.message.contains("host name") == true)
        }

        @Test func anAddressThatRefusesCostsNoAttempt() async throws {
            let log = EventLog()
            var configuration = poolConfiguration(log, 1...1)
            configuration.resolver = self.resolver(["127.0.0.2", "127.0.0.3", "127.0.0.1"])
            try await withClient(configuration: configuration) { _ in
                [.answer(200)]
            } body: { client, server in
                let answers = await client.send(try makeNotifications(3))
                #expect(answers.allSatisfy { $0.status == 200 })
                #expect(log.all.first == .connected)
            }
        }

        @Test func anUnresponsiveAddressDoesNotDelayOtherConnections() async throws {
            let log = EventLog()
            var configuration = poolConfiguration(log, 2...2)
            configuration.connectTimeout = .seconds(1)
            configuration.resolver = self.resolver(["127.0.0.2", "127.0.0.1"])
            try await withClient(configuration: configuration) { _ in
                [.answer(200)]
            } body: { client, server in
                // Accepts and never sends a byte, so that TLS never begins.
                let hole = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                    .bind(host: "127.0.0.2", port: server.port).get()
                #expect(try await client.send(makeNotifications(3)).allSatisfy { $0.status == 200 })
                try await eventually("the hole is given up") {
                    log.count(.disconnected(APNSError(.connecting, ""))) == 1
                }
                try await eventually("two that work") { log.count(.connected) == 2 }
                #expect(server.addresses == ["127.0.0.1", "127.0.0.1"])
                try await hole.close().get()
            }
        }

        @Test func anUnresolvedNameFailsRequestsWithinTheTimeout() async throws {
            let log = ReplyLog()
            let gate = DispatchSemaphore(value: 0)
            var configuration = poolConfiguration(nil, 2...2)
            configuration.connectTimeout = .milliseconds(200)
            configuration.requestTimeout = .milliseconds(600)
            configuration.resolver = HostResolver { _, port throws(APNSError) in
                // Runs on a thread that may block, like the system's resolver.
                _ = gate.wait(timeout: .now() + .seconds(5))
                throw APNSError(.connecting, "too late")
            }
            try await withClient(configuration: configuration, onReplies: log.append) { _ in
                [.answer(200)]
            } body: { client, server in
                client.submit(try makeRequests(3))
                try await eventually("the replies") { log.all.count == 3 }
                for _ in 0..<10 { gate.signal() }
                #expect(log.all.allSatisfy { $0.outcome.error?.code == .connecting })
            }
        }
    }
}

/// Returns the content of a file.
private func bytes(_ path: String) throws -> [UInt8] { try APNSSimulatorConfiguration.read(path) }
