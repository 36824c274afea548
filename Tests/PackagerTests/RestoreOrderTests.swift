import Foundation
import Kafka
import Logging
import Model
import Operations
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// The sequence in which orders are restored, and the manual restore of some of them.
@Suite(.server, .timeLimit(.minutes(5))) struct RestoreOrderTests {
    private static let count = 700
    private static let rounds = 3

    /// Publishes versions of many orders to one partition: an old one of each, then a later one, and so on.
    private func fill(_ fleet: Fleet) async throws -> [OrderKey] {
        let names = (0..<Self.count).map { "o\($0)" }
        try await fleet.working([try fleet.member()]) {
            for round in 0..<Self.rounds {
                try await fleet.publish(
                    names.map { ("order.replaced", $0, "\(round) \($0)", ChangeLog.document("\(round)")) })
                try await fleet.settle()
            }
        }
        return try names.map(ChangeLog.key)
    }

    @Test func eachOrderIsRestoredOnceAndNeverInAnOlderVersion() async throws {
        try await Fleet.run(partitions: 1) { fleet in
            let orders = try await self.fill(fleet)
            let store = OrderStore(redis: fleet.redis)
            let before = try await fleet.content(orders, [])
            let published = try await fleet.admin.endOffsets(fleet.topics.orders).values.reduce(0, +)
            #expect(published == Int64(Self.count * Self.rounds))
            _ = try await fleet.redis.send(RedisCommand("FLUSHALL"))
            let member = try fleet.member()
            try await fleet.working([member]) {
                var seen: [Int] = []
                try await eventually("complete", within: .seconds(60)) {
                    let versions = try await store.versions(of: orders)
                    #expect(versions.allSatisfy { $0 == nil || $0?.ordinal == Int64(Self.rounds) })
                    // The last records of the partition are restored first.
                    if versions.first == .some(nil), let some = versions.firstIndex(where: { $0 != nil }) {
                        seen.append(some)
                    }
                    return try await fleet.isComplete()
                }
                #expect(try await fleet.content(orders, []) == before)
                #expect(member.metrics.counter("waybill_restore_orders_total") == Int64(Self.count))
                #expect(member.metrics.counter("waybill_restore_records_total") == published)
                #expect(seen == seen.sorted(by: >))
            }
            // The restore publishes nothing.
            #expect(try await fleet.admin.endOffsets(fleet.topics.orders).values.reduce(0, +) == published)
        }
    }

    /// An order that an operator removed with a bare tombstone, read before the version that precedes it.
    @Test func anOrderRemovedByABareTombstoneIsNotRestored() async throws {
        try await Fleet.run(partitions: 1) { fleet in
            let orders = try await self.fill(fleet)
            for outcome in await fleet.producer.produce([
                KafkaMessage(topic: fleet.topics.orders, key: Array("\(orders[3])".utf8), value: nil)
            ]) { _ = try outcome.get() }
            _ = try await fleet.redis.send(RedisCommand("FLUSHALL"))
            try await fleet.working([try fleet.member()]) {
                try await eventually("complete", within: .seconds(60)) { try await fleet.isComplete() }
                let versions = try await OrderStore(redis: fleet.redis).versions(of: orders)
                #expect(versions[3] == nil)
                #expect(versions.count { $0 == nil } == 1)
            }
        }
    }

    @Test func ordersMissingFromACompleteViewAreRestoredByCommand() async throws {
        try await Fleet.run(partitions: 2) { fleet in
            let names = (0..<40).map { "o\($0)" }
            let orders = try names.map(ChangeLog.key)
            try await fleet.working([try fleet.member()]) {
                try await fleet.publish(names.map { ("order.replaced", $0, "r\($0)", ChangeLog.document($0)) })
                try await fleet.publish([("order.removed", "o9", "gone", nil)])
                try await fleet.settle()
                let before = try await fleet.content(orders, [])
                let published = try await fleet.admin.endOffsets(fleet.topics.orders).values.reduce(0, +)
                _ = try await fleet.redis.pipeline(
                    orders[..<5].map { RedisCommand("DEL", .string("waybill:1:order:{\($0)}")) })
                func restore(_ arguments: [String]) async throws -> String {
                    let child = try ChildProcess(
                        Program.built("waybill-packager"),
                        ["restore", "--brand", BrandFixture.orderType] + arguments,
                        environment: try fleet.settings())
                    let exit = try await child.exit(within: .seconds(60))
                    #expect(exit == .code(0), "\(child.output)")
                    return child.output
                }
                #expect(try await restore(["--order", "o2"]).contains("1 orders restored"))
                let versions = try await OrderStore(redis: fleet.redis).versions(of: Array(orders[..<5]))
                #expect(versions.map { $0 != nil } == [false, false, true, false, false])
                #expect(try await restore([]).contains("4 orders restored"))
                #expect(try await fleet.content(orders, []) == before)
                #expect(try await restore([]).contains("0 orders restored"))
                #expect(try await fleet.admin.endOffsets(fleet.topics.orders).values.reduce(0, +) == published)
            }
        }
    }

    /// The records that came after a job began are its tail.
    @Test func aTailThatFailsIsReadAgain() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let names = (0..<8).map { "o\($0)" }
            try await fixture.processor().process(names.map { log.change("order.replaced", $0, ChangeLog.document()) })
            _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))
            let journal = LogJournal()
            let logger = Logger(label: "test") { _ in journal }
            let reader = try KafkaReader(KafkaConfiguration(bootstrap: fixture.broker.bootstrap))
            let queue = RestoreJobQueue(MaterializedView(redis: fixture.redis))
            let topic = fixture.topics.orders
            try await queue.note([.init(name: RestorePlan.name(topic, 0), from: 0, to: 5)], of: "plan")
            // Redis refuses an order of the tail.
            let broken = RedisArgument.string("waybill:1:gone:{\(try ChangeLog.key("o6"))}")
            _ = try await fixture.redis.send(RedisCommand("SADD", broken, "1"))
            let metrics = RestoreMetrics(factory: fixture.metrics)
            let run = RestoreRun(
                plan: "plan", queue: queue, reader: reader, ordersTopic: topic,
                orders: OrderRestorer(store: OrderStore(redis: fixture.redis), metrics: metrics, logger: logger),
                registrations: RegistrationRestorer(
                    registrations: Registrations(redis: fixture.redis), metrics: metrics, logger: logger),
                metrics: metrics, logger: logger, sizes: RangeSizes(partitions: 1)
            ) { _ in }
            try await withCleanup(reader.close) {
                async let jobs = run.run()
                try await eventually("it failed") {
                    journal.lines.contains { $0.message == "restore is blocked, retrying" }
                }
                _ = try await fixture.redis.send(RedisCommand("DEL", broken))
                #expect(try await jobs?.map(\.to) == [8])
            }
            #expect(try await OrderStore(redis: fixture.redis).versions(of: names.map(ChangeLog.key)).count == 8)
            for name in names { #expect(try await fixture.state(name) != nil, "\(name)") }
        }
    }
}
