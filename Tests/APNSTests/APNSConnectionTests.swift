import Model
import NIOCore
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import APNS

extension WireTests {
    /// A client's reaction to events on connections.
    @Suite(.server) struct APNSConnectionTests {
        @Test func goAwayMovesUnprocessedRequestsToTheNextConnection() async throws {
            let log = EventLog()
            try await withClient(configuration: quickConfiguration(log)) { request in
                guard request.connection == 0 else { return [.answer(200)] }
                // Holds the answers until the eleventh request causes GOAWAY for every request after the tenth.
                switch request.index {
                case 0: return [.answer(200)]
                case 1..<10: return [.hold]
                case 10: return [.goAway(last: request.stream - 2, reason: "Shutdown"), .release(200)]
                default: return []
                }
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(60))
                #expect(outcomes.allSatisfy { $0.status == 200 }, "\(outcomes.compactMap(\.error))")
                #expect(server.connections == 2)
                #expect(log.goAwayReasons == ["Shutdown"])
                let processed = server.requests.filter { $0.connection == 1 || $0.index < 10 }.map(number)
                #expect(processed.count == 60, "each exactly once")
                #expect(Set(processed).count == 60, "each exactly once")
            }
        }

        @Test func anIdleConnectionIsReplacedAfterGoAway() async throws {
            try await withClient(configuration: quickConfiguration()) { request in
                request.connection == 0
                    ? [.answer(200), .goAway(reason: "Shutdown"), .goAway(reason: "Shutdown")] : [.answer(200)]
            } body: { client, server in
                for round in 0..<3 {
                    let outcomes = await client.send(try makeNotifications(1, from: round))
                    #expect(outcomes.map(\.status) == [200])
                }
                #expect(server.connections == 2)
            }
        }

        @Test(arguments: [true, false])
        func aLostConnectionFailsRequestsInFlightAndIsReplaced(_ isCut: Bool) async throws {
            try await withClient(configuration: quickConfiguration()) { request in
                guard request.connection == 0 else { return [.answer(200)] }
                return request.index < 5 ? [.answer(200)] : [isCut ? .cut : .close]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(300))
                #expect(outcomes.count == 300)
                #expect(outcomes.filter { $0.status == 200 }.count >= 200, "at most a hundred were in flight")
                let lost = outcomes.compactMap(\.error)
                #expect(!lost.isEmpty)
                #expect(lost.allSatisfy { $0.code == .connectionLost })
                #expect(server.connections == 2)
            }
        }

        @Test func aSilentConnectionFailsItsRequestsAndIsReplaced() async throws {
            var configuration = quickConfiguration()
            configuration.requestTimeout = .milliseconds(800)
            try await withClient(configuration: configuration) { request in
                request.connection == 0 ? (request.index == 0 ? [.answer(200)] : []) : [.answer(200)]
            } body: { client, server in
                #expect(try await client.send(makeNotifications(1)).map(\.status) == [200])
                let silent = await client.send(try makeNotifications(5))
                #expect(silent.allSatisfy { $0.error?.code == .silent })
                try await eventually("a second connection") { server.connections == 2 }
                let after = await client.send(try makeNotifications(5))
                #expect(after.allSatisfy { $0.status == 200 }, "\(after)")
            }
        }

        @Test func oneSlowRequestTimesOutAloneAndItsLateAnswerIsIgnored() async throws {
            var configuration = quickConfiguration()
            configuration.requestTimeout = .milliseconds(800)
            configuration.pingInterval = .milliseconds(200)
            try await withClient(configuration: configuration) { request in
                number(request) == 3 ? [.hold] : [.release(200), .answer(200)]
            } body: { client, server in
                #expect(try await client.send(makeNotifications(1)).map(\.status) == [200])
                let outcomes = await client.send([try makeNotifications(1, from: 3)[0]])
                #expect(outcomes.map { $0.error?.code } == [.timeout])
                #expect(try await client.send(makeNotifications(2, from: 10)).map(\.status) == [200, 200])
                #expect(server.connections == 1)
            }
        }

        @Test func aSlowConnectionIsKeptWhilePINGsAreAnswered() async throws {
            let log = EventLog()
            var configuration = quickConfiguration(log)
            configuration.pingInterval = .milliseconds(300)
            try await withClient(configuration: configuration) { request in
                request.index == 0 ? [.hold] : [.release(200), .answer(200)]
            } body: { client, server in
                // swift-nio-http2 answers PINGs by itself.
                async let slow = client.send(try makeNotifications(1))
                try await eventually("the request") { server.requests.count == 1 }
                try await Task.sleep(for: .milliseconds(1_000))
                #expect(try await client.send(makeNotifications(1, from: 1)).map(\.status) == [200])
                #expect(try await slow.map(\.status) == [200])
                #expect(server.connections == 1)
                #expect(!log.all.contains { if case .disconnected = $0 { true } else { false } })
            }
        }

        @Test func waitingRequestsAreSentToARestartedServer() async throws {
            let log = EventLog()
            try await withClient(configuration: quickConfiguration(log)) { _ in
                [.answer(200)]
            } body: { client, server in
                #expect(try await client.send(makeNotifications(1)).map(\.status) == [200])
                let port = server.port
                await server.stop()
                try await eventually("the loss") {
                    log.all.contains { if case .disconnected = $0 { true } else { false } }
                }
                async let waiting = client.send(try makeNotifications(20))
                try await eventually("a failed attempt") {
                    log.all.contains(.disconnected(APNSError(.connecting, "")))
                }
                try await server.start(port: port)
                #expect(try await waiting.allSatisfy { $0.status == 200 })
            }
        }

        @Test func requestsFailByTheDeadlineWithoutAServer() async throws {
            var configuration = quickConfiguration()
            configuration.requestTimeout = .milliseconds(800)
            try await withClient(configuration: configuration) { _ in
                [.answer(200)]
            } body: { client, server in
                await server.stop()
                let outcomes = await client.send(try makeNotifications(10))
                #expect(outcomes.count == 10)
                #expect(outcomes.allSatisfy { $0.error?.code == .connecting })
                #expect(outcomes[0].error?.message.hasPrefix("connecting to localhost:") == true)
            }
        }

        @Test func aFullQueueRefusesTheExcessRequests() async throws {
            var configuration = quickConfiguration()
            configuration.queueLimit = 5
            try await withClient(configuration: configuration) { _ in
                [.answer(200)]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(8))
                #expect(outcomes.prefix(5).allSatisfy { $0.status == 200 })
                #expect(outcomes.suffix(3).allSatisfy { $0.error?.code == .queueFull })
            }
        }

        @Test func closingCompletesRequestsInFlightAndRefusesNewOnes() async throws {
            let log = EventLog()
            try await withClient(configuration: quickConfiguration(log)) { request in
                request.index < 20 ? [.answer(200)] : [.hold]
            } body: { client, server in
                async let outcomes = client.send(try makeNotifications(20))
                try await eventually("a request") { !server.requests.isEmpty }
                await client.close()
                #expect(try await outcomes.allSatisfy { $0.status == 200 })
                #expect(try await client.send(makeNotifications(2)).allSatisfy { $0.error?.code == .closed })
                await client.close()
            }
        }

        @Test func closingDoesNotWaitForEver() async throws {
            var configuration = quickConfiguration()
            configuration.closeTimeout = .milliseconds(200)
            try await withClient(configuration: configuration) { _ in
                [.hold]
            } body: { client, server in
                async let outcomes = client.send(try makeNotifications(5))
                try await eventually("a request") { !server.requests.isEmpty }
                await client.close()
                let errors = try await outcomes.compactMap(\.error)
                #expect(errors.count == 5)
                #expect(errors.allSatisfy { [.closed, .connectionLost].contains($0.code) })
            }
        }
    }
}
