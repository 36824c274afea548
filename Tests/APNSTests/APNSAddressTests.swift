import Dispatch
import Model
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import APNS

extension WireTests {
    /// Where connections go.
    @Suite struct APNSAddressTests {
        private func resolver(
            _ addresses: [String], _ asked: Counter = Counter()
        ) -> @Sendable (String, Int) throws(APNSError) -> [SocketAddress] {
            { _, port throws(APNSError) in
                asked.value.withLock { $0 += 1 }
                return addresses.compactMap { try? SocketAddress(ipAddress: $0, port: port) }
            }
        }

        private final class Counter: Sendable { let value = Mutex(0) }

        @Test func connectionsSpreadOverTheAddressesAndTheNameIsAskedEachTime() async throws {
            let log = EventLog()
            let asked = Counter()
            var configuration = poolConfiguration(log, 3...3)
            configuration.resolve = self.resolver(["127.0.0.1", "127.0.0.2", "127.0.0.3"], asked)
            try await withClient(configuration: configuration, bind: "0.0.0.0") { request in
                request.connection == 0 && request.index == 1
                    ? [.goAway(reason: "Shutdown"), .answer(200)]
                    : [.answer(200)]
            } body: { client, server in
                _ = await client.send(try makeNotifications(1))
                try await eventually("three connections") { log.count(.connected) == 3 }
                #expect(server.addresses.sorted() == ["127.0.0.1", "127.0.0.2", "127.0.0.3"])
                try await eventually("a replacement") {
                    client.submit((try? makeRequests(3)) ?? [])
                    return log.count(.connected) == 4
                }
                #expect(server.addresses[3] == server.addresses[0], "the address that has none now")
                #expect(asked.value.withLock { $0 } == 4)
            }
        }

        @Test func anAddressThatRefusesCostsNoAttempt() async throws {
            let log = EventLog()
            var configuration = poolConfiguration(log, 1...1)
            configuration.resolve = self.resolver(["127.0.0.2", "127.0.0.3", "127.0.0.1"])
            try await withClient(configuration: configuration) { _ in
                [.answer(200)]
            } body: { client, server in
                let answers = await client.send(try makeNotifications(3))
                #expect(answers.allSatisfy { $0.status == 200 })
                #expect(log.all.first == .connected)
            }
        }

        @Test func anAddressThatSwallowsEverythingDelaysOnlyItself() async throws {
            let log = EventLog()
            var configuration = poolConfiguration(log, 2...2)
            configuration.connectTimeout = .seconds(1)
            configuration.resolve = self.resolver(["127.0.0.2", "127.0.0.1"])
            try await withClient(configuration: configuration) { _ in
                [.answer(200)]
            } body: { client, server in
                // Accepts and never says a word, so that TLS never begins.
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

        @Test func aNameThatNeverResolvesIsGivenUpInTime() async throws {
            let log = ReplyLog()
            let gate = DispatchSemaphore(value: 0)
            var configuration = poolConfiguration(nil, 2...2)
            configuration.connectTimeout = .milliseconds(200)
            configuration.requestTimeout = .milliseconds(600)
            configuration.resolve = { _, port throws(APNSError) in
                // A thread that may block, as the system's resolver does.
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
