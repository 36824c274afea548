import Model
import NIOCore
import NIOHTTP2
import Synchronization
import TestTraits
import Testing

@testable import APNS

extension WireTests {
    @Suite(.server) struct APNSClientTests {
        @Test func aNotificationHasTheAPNsHeadersAndReturnsItsAnswer() async throws {
            try await withClient(configuration: quickConfiguration()) { _ in
                [.answer(200)]
            } body: { client, server in
                let notification = try #require(makeNotifications(1).first)
                let outcomes = await client.send([notification])
                let answer = try #require(outcomes.first?.answer)
                let request = try #require(server.requests.first)
                #expect(answer.status == 200)
                #expect(answer.reason == nil)
                #expect(answer.apnsID == request.headers["apns-id"])
                #expect(request.path == "/3/device/\(notification.deviceToken.rawValue)")
                #expect(request.body == Array("{}".utf8))
                #expect(request.headers[":method"] == "POST")
                #expect(request.headers[":scheme"] == "https")
                #expect(request.headers[":authority"] == "localhost:\(server.port)")
                #expect(request.headers["apns-topic"] == "order.com.example.shop")
                #expect(request.headers["apns-push-type"] == "background")
                #expect(request.headers["apns-priority"] == "5")
                #expect(request.headers["apns-expiration"] == "1800000000")
                #expect(request.headers["authorization"] == nil)
            }
        }

        @Test func noNotificationsHaveNoOutcomes() async throws {
            try await withClient(configuration: quickConfiguration()) { _ in
                [.answer(200)]
            } body: { client, server in
                #expect(await client.send([]).isEmpty)
            }
        }

        @Test func aThousandNotificationsOnOneConnectionComeBackInOrder() async throws {
            try await withClient(configuration: quickConfiguration()) { request in
                [
                    .answer(
                        number(request) % 7 == 0 ? 410 : 200,
                        number(request) % 7 == 0 ? #"{"reason":"Unregistered"}"# : "")
                ]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(1_000))
                #expect(outcomes.map(\.status) == (0..<1_000).map { $0 % 7 == 0 ? 410 : 200 })
                #expect(server.connections == 1)
                #expect(Set(server.requests.map { $0.headers["apns-id"] }).count == 1_000)
                #expect(server.mostOpen > 1)
                #expect(server.mostOpen <= 100)
            }
        }

        @Test func concurrentBatchesDoNotMixTheirOutcomes() async throws {
            try await withClient(configuration: quickConfiguration()) { request in
                [
                    .answer(
                        number(request) < 1_000 ? 200 : 400,
                        number(request) < 1_000 ? "" : #"{"reason":"BadDeviceToken"}"#)
                ]
            } body: { client, server in
                async let good = client.send(try makeNotifications(300))
                async let bad = client.send(try makeNotifications(300, from: 1_000))
                let outcomes = try await (good, bad)
                #expect(outcomes.0.allSatisfy { $0.status == 200 })
                #expect(outcomes.0.count == 300)
                #expect(outcomes.1.allSatisfy { $0.answer?.reason == "BadDeviceToken" })
                #expect(outcomes.1.count == 300)
            }
        }

        @Test func reasonsAndTimestampsAreRead() async throws {
            let bodies = [
                #"{"reason":"Unregistered","timestamp":1700000000123}"#, #"{"reason":"BadDeviceToken"}"#, "not json",
                "{}",
            ]
            try await withClient(configuration: quickConfiguration()) { request in
                [.answer(number(request) == 0 ? 410 : 400, bodies[number(request) % 4])]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(4))
                #expect(outcomes[0].answer?.timestampMilliseconds == 1_700_000_000_123)
                #expect(
                    outcomes.map { verdict(of: $0) } == [
                        .retire(registeredBeforeMilliseconds: 1_700_000_000_123),
                        .unknownToken,
                        .drop(reason: "400 without a reason"), .drop(reason: "400 without a reason"),
                    ])
            }
        }

        @Test func oneStreamIsUsedUntilTheLimitGrows() async throws {
            try await withClient(configuration: quickConfiguration(), limit: 1) { request in
                switch request.index {
                case 0..<5: [.answer(200)]
                case 5: [.limit(100), .answer(200)]
                case 6..<50: [.hold]
                default: [.hold, .release(200)]
                }
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(51))
                #expect(outcomes.allSatisfy { $0.status == 200 })
                #expect(server.requests.prefix(6).map(number) == Array(0..<6), "one after the other")
                #expect(server.mostOpen == 45)
            }
        }

        @Test func aLoweredLimitIsObeyedWhileStreamsAreOpen() async throws {
            let log = EventLog()
            let open = Mutex(0)
            let most = Mutex(0)
            try await withClient(configuration: quickConfiguration(log), limit: 20) { request in
                // The first twenty are held until the limit of two has been announced; later ones arrive two at a time.
                if request.index < 19 { return [.hold] }
                if request.index == 19 { return [.limit(2), .hold, .release(200)] }
                open.withLock { $0 += 1 }
                return [.answer(200)]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(60))
                #expect(outcomes.allSatisfy { $0.status == 200 })
                #expect(log.all.contains(.streamLimit(20)))
                #expect(log.all.contains(.streamLimit(2)))
                most.withLock { $0 = server.mostOpen }
                #expect(server.mostOpen <= 20)
                #expect(server.requests.count == 60, "nothing was refused or sent twice")
            }
        }

        @Test func aRefusedStreamIsRetriedWithTheSameIdentifier() async throws {
            let refused = Mutex<Set<Int>>([])
            try await withClient(configuration: quickConfiguration()) { request in
                let isFirst = refused.withLock { $0.insert(number(request)).inserted }
                return isFirst && number(request) % 3 == 0 ? [.reset(.refusedStream)] : [.answer(200)]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(100))
                #expect(outcomes.allSatisfy { $0.status == 200 })
                #expect(server.requests.count == 134)
                let again = Dictionary(grouping: server.requests, by: number)
                #expect(
                    again.values.allSatisfy { Set($0.map { $0.headers["apns-id"] }).count == 1 }, "same apns-id again")
            }
        }

        @Test func aResetOtherThanRefusedStreamIsAnError() async throws {
            try await withClient(configuration: quickConfiguration()) { request in
                number(request) == 1 ? [.reset(.internalError)] : [.answer(200)]
            } body: { client, server in
                let outcomes = await client.send(try makeNotifications(3))
                #expect(outcomes.map(\.status) == [200, nil, 200])
                #expect(outcomes[1].error?.code == .protocolViolation)
                #expect(outcomes[1].error?.message.contains("INTERNAL_ERROR") == true)
            }
        }
    }
}
