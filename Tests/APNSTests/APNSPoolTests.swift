import Model
import NIOCore
import NIOHTTP2
import NIOPosix
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import APNS

/// The quick configuration with several connections instead of one.
func poolConfiguration(_ log: EventLog? = nil, _ connections: ClosedRange<Int> = 2...4) -> APNSConfiguration {
    var configuration = quickConfiguration(log)
    configuration.connections = connections
    return configuration
}

extension WireTests {
    /// A client's behaviour with several connections.
    @Suite(.server) struct APNSPoolTests {
        @Test func theWarmConnectionsShareTheRequests() async throws {
            let log = EventLog()
            try await withClient(configuration: poolConfiguration(log, 2...2)) { _ in
                [.answer(200)]
            } body: { client, server in
                _ = await client.send(try makeNotifications(1))
                try await eventually("two connections") { log.count(.connected) == 2 }
                let outcomes = await client.send(try makeNotifications(400, from: 1))
                #expect(outcomes.allSatisfy { $0.status == 200 })
                #expect(server.connections == 2)
                let shares = Dictionary(grouping: server.requests, by: \.connection).mapValues(\.count)
                #expect(shares.values.allSatisfy { $0 > 50 }, "\(shares)")
                #expect(shares.count == 2, "\(shares)")
                #expect(await client.snapshot().connections == [.open: 2])
            }
        }

        @Test func aFullPoolGrowsUpToItsMaximum() async throws {
            var configuration = poolConfiguration(nil, 1...3)
            configuration.growAge = .milliseconds(50)
            configuration.growSustain = .milliseconds(50)
            configuration.closeTimeout = .milliseconds(100)
            let log = ReplyLog()
            try await withClient(configuration: configuration, limit: 2, onReplies: log.append) { _ in
                [.hold]
            } body: { client, server in
                client.submit(try makeRequests(10))
                try await eventually("three connections") { server.requests.count == 6 }
                try await Task.sleep(for: .milliseconds(300))
                #expect(server.connections == 3)
                let snapshot = await client.snapshot()
                #expect(snapshot.connections == [.open: 3])
                #expect(snapshot.streamsInUse == 6)
                #expect(snapshot.queued == 4)
                await client.close()
                #expect(log.all.map(\.number).sorted() == Array(0..<10), "each has one reply, closed or not")
            }
        }

        @Test func aReplacementConnectsWhileTheOldConnectionDrains() async throws {
            let log = EventLog()
            try await withClient(configuration: poolConfiguration(log, 1...1)) { request in
                guard request.connection == 0 else { return [.answer(200)] }
                switch request.index {
                case 0: return [.answer(200)]
                case 1...3: return [.hold]
                default: return [.goAway(reason: "Shutdown"), .hold, .after(.milliseconds(400), [.release(200)])]
                }
            } body: { client, server in
                _ = await client.send(try makeNotifications(1))
                async let old = client.send(try makeNotifications(4, from: 1))
                try await eventually("the replacement") { log.count(.connected) == 2 }
                #expect(log.count(.replaced(.goAway)) == 1)
                #expect(try await client.send(makeNotifications(3, from: 10)).allSatisfy { $0.status == 200 })
                #expect(await client.snapshot().connections == [.open: 1, .draining: 1])
                #expect(try await old.allSatisfy { $0.status == 200 })
                try await eventually("the old one's end") { server.requests.count == 8 }
                #expect(!log.all.contains { if case .disconnected = $0 { true } else { false } }, "\(log.all)")
            }
        }

        @Test func bothGoAwaysOfAPairAreObeyed() async throws {
            let log = EventLog()
            try await withClient(configuration: poolConfiguration(log, 1...1)) { request in
                guard request.connection == 0 else { return [.answer(200)] }
                // Sends a GOAWAY that excludes no stream, then one that marks the last five as not processed.
                switch request.index {
                case 0: return [.answer(200)]
                case 1..<10: return [.hold]
                default:
                    let truth = ScriptedServer.Step.goAway(last: request.stream - 10, reason: "Shutdown")
                    return [
                        .hold, .goAway(last: .max, reason: "Shutdown"),
                        .after(.milliseconds(200), [truth, .release(200)]),
                    ]
                }
            } body: { client, server in
                _ = await client.send(try makeNotifications(1))
                let outcomes = await client.send(try makeNotifications(10, from: 1))
                #expect(outcomes.allSatisfy { $0.status == 200 }, "\(outcomes.compactMap(\.error))")
                #expect(log.goAwayReasons == ["Shutdown", "Shutdown"])
                #expect(log.count(.replaced(.goAway)) == 1)
                #expect(server.connections == 2)
                #expect(server.requests.filter { $0.connection == 1 }.map(number).sorted() == Array(6..<11))
                #expect(log.count(.refusedStreams(5)) == 1)
            }
        }

        @Test func requestsRefusedForeverEndAtTheirDeadlineWithFewRetries() async throws {
            var configuration = poolConfiguration(nil, 1...1)
            configuration.requestTimeout = .milliseconds(500)
            try await withClient(configuration: configuration) { request in
                request.index == 0 ? [.answer(200)] : [.after(.milliseconds(5), [.reset(.refusedStream)])]
            } body: { client, server in
                _ = await client.send(try makeNotifications(1))
                let outcomes = await client.send(try makeNotifications(50, from: 1))
                #expect(outcomes.allSatisfy { [.timeout, .notStarted].contains($0.error?.code) }, "\(outcomes)")
                #expect(server.requests.count < 50 + 150, "one at a time after the first refusals")
                #expect(server.connections == 1)
            }
        }

        @Test func exhaustedStreamIdentifiersLoseNoRequest() async throws {
            let log = EventLog()
            var configuration = poolConfiguration(log, 1...1)
            configuration.lastStreamIdentifier = 40
            try await withClient(configuration: configuration) { _ in
                [.answer(200)]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(100))
                #expect(outcomes.allSatisfy { $0.status == 200 }, "\(outcomes.compactMap(\.error))")
                // The last request exhausts the fifth connection; its successor may already be open.
                #expect((5...6).contains(server.connections))
                #expect(server.requests.map(\.stream).max() == 39)
                #expect(server.requests.count == 100)
                #expect(log.count(.replaced(.streamIdentifiers)) >= 4)
            }
        }

        @Test func aConnectionThatAlwaysSays500IsReplacedWhileTheOtherIsWell() async throws {
            let log = EventLog()
            try await withClient(configuration: poolConfiguration(log, 2...2)) { request in
                request.connection == 0
                    ? [.answer(request.index == 0 ? 200 : 500, #"{"reason":"InternalServerError"}"#)] : [.answer(200)]
            } body: { client, server in
                _ = await client.send(try makeNotifications(1))
                try await eventually("two connections") { log.count(.connected) == 2 }
                try await eventually("a replacement") {
                    client.submit((try? makeRequests(20)) ?? [])
                    return log.count(.replaced(.serverErrors)) == 1
                }
                try await eventually("the third") { log.count(.connected) == 3 }
                #expect(try await client.send(makeNotifications(20)).allSatisfy { $0.status == 200 })
            }
        }

        /// The bad host answers immediately, so it always has the fewest requests in flight; the good host is slow.
        @Test(arguments: [(503, "ServiceUnavailable"), (403, "InvalidProviderToken"), (403, "ExpiredProviderToken")])
        func aConnectionThatFailsAtOnceDoesNotGetTheTraffic(_ status: Int, _ reason: String) async throws {
            let log = EventLog()
            try await withClient(configuration: poolConfiguration(log, 2...2)) { request in
                request.connection == 0 && request.index > 0
                    ? [.answer(status, #"{"reason":"\#(reason)"}"#)] : [.after(.milliseconds(50), [.answer(200)])]
            } body: { client, server in
                _ = await client.send(try makeNotifications(1))
                try await eventually("two connections") { log.count(.connected) == 2 }
                var failed = 0
                for round in 0..<15 {
                    let outcomes = await client.send(try makeNotifications(20, from: 20 * round))
                    failed += outcomes.count { $0.status == status }
                    if failed > 0, log.all.contains(where: { if case .replaced = $0 { true } else { false } }) { break }
                }
                #expect((1...30).contains(failed), "\(failed) of 300")
                try await eventually("the third") { log.count(.connected) == 3 }
                #expect(try await client.send(makeNotifications(20)).allSatisfy { $0.status == 200 })
            }
        }

        @Test func aRetryAfterA503UsesAnotherConnection() async throws {
            let log = EventLog()
            try await withClient(configuration: poolConfiguration(log, 2...2)) { request in
                request.connection == 0 && number(request) == 7 ? [.answer(503)] : [.answer(200)]
            } body: { client, server in
                _ = await client.send(try makeNotifications(1))
                try await eventually("two connections") { log.count(.connected) == 2 }
                // A device that one host cannot serve is served by its second attempt at the latest.
                for _ in 0..<20 {
                    let first = try await client.send(makeNotifications(1, from: 7))[0].status
                    if first == 503 {
                        #expect(try await client.send(makeNotifications(1, from: 7))[0].status == 200)
                    }
                }
                #expect(server.requests.contains { $0.connection == 0 && number($0) == 7 })
            }
        }

        @Test func aConnectionLostWhileIdleIsDetectedQuickly() async throws {
            let log = EventLog()
            var configuration = poolConfiguration(log, 2...2)
            configuration.idleToPing = .milliseconds(300)
            configuration.idlePingPatience = .milliseconds(200)
            try await withClient(configuration: configuration) { request in
                // Both connections stop answering while they are idle.
                request.connection < 2 ? [.answer(200), .after(.milliseconds(400), [.mute])] : [.answer(200)]
            } body: { client, server in
                try await eventually("two connections that are used") {
                    client.submit((try? makeRequests(1)) ?? [])
                    return Set(server.requests.map(\.connection)).count == 2
                }
                try await Task.sleep(for: .milliseconds(700))
                let start = ContinuousClock.now
                let outcomes = await client.send(try makeNotifications(1, from: 1))
                #expect(outcomes[0].error?.code == .connectionLost)
                #expect(ContinuousClock.now - start < .seconds(4), "not the five seconds of a PING and five of silence")
                try await eventually("another is there") { log.count(.connected) >= 3 }
            }
        }

        @Test func aSilentConnectionIsReplacedWhileTheOtherKeepsSending() async throws {
            let log = EventLog()
            var configuration = poolConfiguration(log, 2...2)
            configuration.pingInterval = .milliseconds(200)
            configuration.requestTimeout = .seconds(5)
            try await withClient(configuration: configuration) { request in
                request.connection == 0 && request.index > 0 ? [.mute] : [.answer(200)]
            } body: { client, server in
                _ = await client.send(try makeNotifications(1))
                try await eventually("two connections") { log.count(.connected) == 2 }
                let outcomes = await client.send(try makeNotifications(20, from: 1))
                let lost = outcomes.compactMap(\.error)
                #expect(!lost.isEmpty)
                #expect(lost.allSatisfy { $0.code == .connectionLost && $0.message.contains("PING") })
                #expect(outcomes.contains { $0.status == 200 })
                try await eventually("the news of it") { log.count(.replaced(.silence)) == 1 }
                try await eventually("the third") { log.count(.connected) == 3 }
                #expect(try await client.send(makeNotifications(20)).allSatisfy { $0.status == 200 })
            }
        }

        @Test func aHalfClosedConnectionIsALostOne() async throws {
            let log = EventLog()
            try await withClient(configuration: poolConfiguration(log, 1...1)) { request in
                request.connection == 0 && request.index > 0 ? [.halfClose] : [.answer(200)]
            } body: { client, server in
                _ = await client.send(try makeNotifications(1))
                let outcomes = await client.send(try makeNotifications(3, from: 1))
                #expect(outcomes.contains { $0.error?.code == .connectionLost })
                #expect(try await client.send(makeNotifications(3)).allSatisfy { $0.status == 200 })
                #expect(log.count(.connected) == 2)
            }
        }

        @Test func thePINGRoundTripIsReported() async throws {
            let log = EventLog()
            var configuration = poolConfiguration(log, 1...1)
            configuration.pingInterval = .milliseconds(50)
            try await withClient(configuration: configuration) { request in
                [.after(.milliseconds(400), [.answer(200)])]
            } body: { client, server in
                let answers = await client.send(try makeNotifications(1))
                #expect(answers.map(\.status) == [200])
                let trips = log.all.compactMap { if case .pingRoundTrip(let time) = $0 { time } else { nil } }
                #expect(!trips.isEmpty)
                #expect(trips.allSatisfy { $0 > .zero && $0 < .seconds(1) })
            }
        }

        @Test func aPoolThatCannotConnectFailsEachRequestInTime() async throws {
            let log = ReplyLog()
            let events = EventLog()
            var configuration = poolConfiguration(events)
            configuration.requestTimeout = .milliseconds(400)
            configuration.queueLimit = 100
            configuration.resolver = HostResolver { host, port throws(APNSError) in
                throw APNSError(.connecting, "no such name")
            }
            try await withClient(configuration: configuration, onReplies: log.append) { _ in
                [.answer(200)]
            } body: { client, server in
                client.submit(try makeRequests(150))
                try await eventually("the replies") { log.all.count == 150 }
                #expect(log.all.count { $0.outcome.error?.code == .queueFull } == 50)
                #expect(log.all.count { $0.outcome.error?.code == .connecting && $0.elapsed == nil } == 100)
                #expect(Set(log.all.map(\.number)).count == 150)
                #expect(server.connections == 0)
                #expect(await client.snapshot().lastFailure?.code == .connecting)
                #expect(events.all.count < 20, "attempts wait")
            }
        }
    }
}
