import Foundation
import Kafka
import Model
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Brands
@testable import Packager
@testable import Packaging

/// Redis and the broker fail and return, and several workers write: nothing is lost.
@Suite(.server) struct UpstreamTests {
    private func changes(_ log: inout ChangeLog) -> [KafkaRecord] {
        (0..<20).flatMap { number in
            [
                log.change("order.replaced", "o\(number)", ChangeLog.document("\(number)")),
                log.change("fulfillment.updated", "o\(number)", ChangeLog.fulfillment("f")),
            ]
        }
    }

    private func expectAll(_ fixture: PackagerFixture) async throws {
        for number in 0..<20 {
            let state = try #require(try await fixture.state("o\(number)"))
            #expect(state.document.members["orderNumber"] == .string("\(number)"))
            #expect(state.document.members["fulfillments"]?.array?.count == 1)
            #expect(state.version.ordinal == 1)
        }
        let told = Set(try await fixture.read(fixture.topics.orders, 20).map(\.keyText))
        #expect(told.count == 20)
        #expect(try await fixture.count(fixture.topics.deadLetters) == 0)
    }

    @Test func aBatchRetriedAfterARedisOutageGivesTheSameResult() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let batch = self.changes(&log)
            await fixture.server.stop()
            await #expect(throws: RetriableFailure.self) { try await processor.process(batch) }
            try await fixture.server.restart()
            try await eventually("done") {
                do { try await processor.process(batch) } catch is RetriableFailure { return false }
                return true
            }
            try await self.expectAll(fixture)
        }
    }

    @Test func aBatchRetriedAfterARedisTimeoutIsAppliedOnce() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let batch = self.changes(&log)
            // Redis stops somewhere between the first read and the last write, or after it.
            async let stopped: Void = {
                try await eventually("something written") {
                    let size = try await fixture.redis.send(RedisCommand("DBSIZE"))
                    return (size.integer ?? 0) > 0
                }
                fixture.server.signal(SIGSTOP)
            }()
            _ = try? await processor.process(batch)
            try await stopped
            _ = try? await processor.process(batch)
            fixture.server.signal(SIGCONT)
            try await eventually("done") {
                do { try await processor.process(batch) } catch is RetriableFailure { return false }
                return true
            }
            try await self.expectAll(fixture)
        }
    }

    @Test func aBatchRetriedAfterABrokerOutageIsPublished() async throws {
        try await PackagerFixture.run(producer: ["delivery.timeout.ms": "1000"]) { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let batch = self.changes(&log)
            try fixture.broker.setDown()
            await #expect(throws: RetriableFailure.self) { try await processor.process(batch) }
            #expect(try await fixture.state("o0")?.version.ordinal == 1)
            try fixture.broker.setUp()
            try await eventually("done") {
                do { try await processor.process(batch) } catch is RetriableFailure { return false }
                return true
            }
            try await self.expectAll(fixture)
        }
    }

    /// Its tombstones would be lost if the registrations were gone from Redis before the broker had them.
    @Test func aRemovalRetriedAfterABrokerOutagePublishesRegistrationTombstones() async throws {
        try await PackagerFixture.run(producer: ["delivery.timeout.ms": "1000"]) { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            let registration = RegistrationKey(device: try DeviceIdentifier("d"), order: try ChangeLog.key("o"))
            _ = try await Registrations(redis: fixture.redis).register(
                registration,
                RegistrationRecord(
                    pushToken: try PushToken(String(repeating: "ab", count: 32)), registeredEpochMilliseconds: 1))
            let batch = [log.change("order.removed", "o", nil)]
            try fixture.broker.setDown()
            await #expect(throws: RetriableFailure.self) { try await processor.process(batch) }
            try fixture.broker.setUp()
            try await eventually("done") {
                do { try await processor.process(batch) } catch is RetriableFailure { return false }
                return true
            }
            let tombstones = try await fixture.read(fixture.topics.registrations, 1)
            #expect(tombstones.map(\.keyText) == [registration.text])
            #expect(try await Registrations(redis: fixture.redis).devices(of: [registration.order]) == [[]])
        }
    }

    @Test func aSigningFailureIsRetriedAndRefusesNoChange() async throws {
        try await PackagerFixture.run { fixture in
            let packager = OrderPackager(fixture.brandFixture.brand, tokens: try BrandFixture.tokens()) {
                (_, _, _) throws(PackagingError) in
                throw PackagingError(.signing, "no entropy")
            }
            var log = ChangeLog()
            let batch = self.changes(&log)
            let broken = try fixture.processor(packager: packager)
            await #expect(throws: RetriableFailure.self) { try await broken.process(batch) }
            try await fixture.processor().process(batch)
            try await self.expectAll(fixture)
        }
    }

    @Test func twoWorkersOnTheSameOrderLoseNothing() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            try await fixture.processor().process([log.change("order.replaced", "o", ChangeLog.document())])
            let rounds = 60
            let logs = (1...2).map { partition in
                var log = ChangeLog(partition: Int32(partition))
                return (0..<rounds).map {
                    log.change("fulfillment.updated", "o", ChangeLog.fulfillment("f\(partition)-\($0)"))
                }
            }
            try await withThrowingTaskGroup { group in
                for log in logs {
                    let processor = try fixture.processor()
                    group.addTask {
                        for record in log {
                            try await eventually("done") {
                                do { try await processor.process([record]) } catch is RetriableFailure {
                                    return false
                                }
                                return true
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            let state = try #require(try await fixture.state("o"))
            let found = state.document.members["fulfillments"]?.array?.compactMap {
                $0.object?["fulfillmentIdentifier"]?.string
            }
            #expect(found?.count == 2 * rounds)
            for partition in 1...2 {
                // Those of one worker are in its order.
                #expect(found?.filter { $0.hasPrefix("f\(partition)-") } == (0..<rounds).map { "f\(partition)-\($0)" })
            }
            #expect(state.version.ordinal == Int64(1 + 2 * rounds))
            #expect(fixture.counter("waybill_write_conflicts_total") > 0)

            // Both remember how far they came: nothing is applied a second time.
            try await fixture.processor().process(logs[0] + logs[1])
            #expect(try await fixture.state("o") == state)
        }
    }
}
