import Foundation
import Kafka
import Model
import NIOCore
import NIOPosix
import Operations
import Redis
import ServiceLifecycle
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Redis loses its data while packagers work. One test at a time: each has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct RestoreServiceTests {
    private static let count = 60

    /// Some orders with some versions, one of them removed, and some registrations.
    private func fill(_ fleet: Fleet) async throws -> (orders: [OrderKey], registrations: [RegistrationKey]) {
        let names = (0..<Self.count).map { "o\($0)" }
        try await fleet.publish(names.map { ("order.replaced", $0, "r\($0)", ChangeLog.document($0)) })
        try await fleet.settle()
        try await fleet.publish(names.map { ("fulfillment.updated", $0, "f\($0)", ChangeLog.fulfillment("a")) })
        try await fleet.publish([("order.removed", "o7", "gone", nil)])
        try await fleet.settle()
        let orders = try names.map(ChangeLog.key)
        let standing = orders.filter { $0.order.rawValue != "o7" }
        return (orders, try await fleet.register(150, orders: standing))
    }

    /// Runs members around `body` and stops them.
    private func with(_ fleet: Fleet, _ count: Int, _ body: @Sendable ([Fleet.Member]) async throws -> Void)
        async throws
    {
        let members = try (0..<count).map { _ in try fleet.member() }
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for member in members { tasks.addTask { try await member.group.run() } }
            try await eventually("complete") { try await fleet.isComplete() }
            try await body(members)
            for member in members { await member.group.triggerGracefulShutdown() }
            try await tasks.waitForAll()
        }
    }

    /// Asks for orders as the gateway does before it refuses a request, until the view was lost and is complete again:
    /// no order may ever seem not to exist.
    private func ask(_ fleet: Fleet, _ orders: [OrderKey]) async throws {
        let reader = PackageReader(redis: fleet.redis)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        var wasLost = false
        try await eventually("lost and restored") {
            for key in orders {
                let standing = try await reader.lookup(of: key, on: loop).get()
                if standing.isComplete {
                    #expect(standing.stamp != nil, "\(key) would be refused")
                } else {
                    wasLost = true
                }
            }
            let isComplete = try await fleet.isComplete()
            return wasLost && isComplete
        }
    }

    @Test func anEmptyInstallationIsCompleteWithin30Seconds() async throws {
        try await Fleet.run { fleet in
            let start = ContinuousClock.now
            try await self.with(fleet, 1) { members in
                #expect(ContinuousClock.now - start < .seconds(30))
                try await eventually("ready") { members[0].isReady }
                #expect(members[0].metrics.gauge("waybill_view_complete") == 1)
            }
        }
    }

    /// Redis has seen offsets that the topic does not have.
    @Test func aTopicThatWasMadeAnewIsReported() async throws {
        try await Fleet.run { fleet in
            try await self.with(fleet, 1) { members in
                try await fleet.publish([("order.replaced", "o", "1", ChangeLog.document("1"))])
                try await fleet.settle()
                let tail = "\(fleet.producer.cluster)/\(fleet.topics.orders)/0"
                let name = "waybill_topic_partitions_behind{topic=\"\(fleet.topics.orders)\"}"
                // Each master of a cluster has them.
                let tags = try await fleet.redis.hashTags()
                let keys = tags.isEmpty ? ["waybill:1:view:tails"] : tags.map { "waybill:1:view:tails:{\($0)}" }
                try await eventually("noticed") {
                    for key in keys {
                        _ = try await fleet.redis.send(
                            RedisCommand("HSET", .string(key), .string(tail), "1000000"))
                    }
                    return members[0].metrics.text.contains("\n\(name) 1.0\n")
                }
                let remarks = members[0].environment.readiness.remarks
                #expect(remarks.contains { $0.hasPrefix("topics: 1 partitions of \(fleet.topics.orders) end before") })
                #expect(members[0].isReady)
            }
        }
    }

    @Test func ordersFlushedUnderLoadAreRestoredAndChangesContinue() async throws {
        try await Fleet.run { fleet in
            try await self.with(fleet, 2) { members in
                let (orders, registrations) = try await self.fill(fleet)
                let before = try await fleet.content(orders, registrations)
                #expect(before.states.count == Self.count)
                #expect(before.states[orders[7]]?.isRemoved == true)
                // The load: changes continue while Redis is emptied and restored.
                try await withThrowingTaskGroup(of: Void.self) { load in
                    load.addTask {
                        for round in 0..<10 {
                            try await fleet.publish(
                                (20..<40).map {
                                    (
                                        "order.patched", "o\($0)", "l\(round)-\($0)",
                                        ["statusDescription": .string("\(round)")]
                                    )
                                })
                        }
                    }
                    load.addTask { try await self.ask(fleet, orders.filter { $0 != orders[7] }) }
                    _ = try await fleet.redis.send(RedisCommand("FLUSHALL"))
                    try await load.waitForAll()
                }
                try await fleet.publish([("fulfillment.updated", "o3", "late", ChangeLog.fulfillment("b"))])
                try await fleet.settle()
                try await eventually("complete") { try await fleet.isComplete() }
                let after = try await fleet.content(orders, registrations)
                for (index, key) in orders.enumerated() where !(20..<40).contains(index) && index != 3 {
                    #expect(after.states[key] == before.states[key], "\(key)")
                }
                #expect(after.devices == before.devices)
                #expect(after.lists == before.lists)
                for index in 20..<40 {
                    let state = try #require(after.states[orders[index]])
                    #expect(state.document.members["statusDescription"] == "9")
                    #expect(state.document.members["fulfillments"]?.array?.count == 1)
                }
                let third = try #require(after.states[orders[3]])
                #expect(third.version.ordinal == 3)
                #expect(third.document.members["fulfillments"]?.array?.count == 2)
                #expect(try await fleet.admin.endOffsets(fleet.topics.deadLetters).values.reduce(0, +) == 0)
                try await fleet.verify([orders[0], orders[3], orders[25]])
                #expect(members.reduce(0) { $0 + $1.metrics.counter("waybill_restores_total") } >= 2)
            }
        }
    }

    @Test func anEmptyReplacementRedisIsFullyRestored() async throws {
        try await Fleet.run { fleet in
            try await self.with(fleet, 2) { _ in
                let (orders, registrations) = try await self.fill(fleet)
                let before = try await fleet.content(orders, registrations)
                await fleet.server.kill()
                try await fleet.server.restart()
                try await eventually("complete") { (try? await fleet.isComplete()) == true }
                #expect(try await fleet.content(orders, registrations) == before)
                try await fleet.verify([orders[0]])
            }
        }
    }

    @Test func aRedisRestartedFromAnOldSnapshotIsBroughtUpToDate() async throws {
        try await Fleet.run { fleet in
            try await self.with(fleet, 2) { members in
                let (orders, registrations) = try await self.fill(fleet)
                try await fleet.server.everywhere("SAVE")
                try await fleet.publish(
                    (0..<20).filter { $0 != 7 }.map {
                        ("fulfillment.updated", "o\($0)", "s\($0)", ChangeLog.fulfillment("b"))
                    }
                        + [
                            ("order.replaced", "new", "new", ChangeLog.document("new")),
                            ("order.removed", "o30", "x", nil),
                        ])
                try await fleet.settle()
                let more = try await fleet.register(20, orders: [orders[0]], from: 1000)
                let all = orders + [try ChangeLog.key("new")]
                let before = try await fleet.content(all, registrations + more)
                await fleet.server.kill()
                try await fleet.server.restart()
                try await fleet.publish([("fulfillment.updated", "o1", "late", ChangeLog.fulfillment("c"))])
                try await fleet.settle()
                try await eventually("complete") { (try? await fleet.isComplete()) == true }
                let after = try await fleet.content(all, registrations + more)
                for key in all where key != orders[1] { #expect(after.states[key] == before.states[key], "\(key)") }
                #expect(after.states[orders[30]]?.isRemoved == true)
                let first = try #require(after.states[orders[1]])
                let old = try #require(before.states[orders[1]])
                #expect(first.document.members["fulfillments"]?.array?.count == 3)
                #expect(first.version == old.version + 1)
                #expect(first.modifiedEpochSeconds > old.modifiedEpochSeconds)
                #expect(after.devices == before.devices)
                #expect(after.lists == before.lists)
                #expect(members.contains { $0.metrics.counter("waybill_restores_total") > 1 })
            }
        }
    }

    @Test func aRedisRestartWithoutDataLossCausesNoRestore() async throws {
        try await Fleet.run(redis: ["--appendonly", "yes", "--appendfsync", "always"]) { fleet in
            try await self.with(fleet, 1) { members in
                let (orders, registrations) = try await self.fill(fleet)
                let before = try await fleet.content(orders, registrations)
                let restores = members[0].metrics.counter("waybill_restores_total")
                await fleet.server.kill()
                try await fleet.server.restart()
                try await eventually("complete") { (try? await fleet.isComplete()) == true }
                #expect(try await fleet.content(orders, registrations) == before)
                #expect(members[0].metrics.counter("waybill_restores_total") == restores)
            }
        }
    }

    @Test func aDeadWorkersJobIsTakenOverAndANewLossInvalidatesThePlan() async throws {
        try await Fleet.run { fleet in
            let filled = try await self.filled(fleet)
            let before = filled.content
            // A worker that began to restore, took a job and died with it, half done.
            _ = try await fleet.redis.send(RedisCommand("FLUSHALL"))
            let view = MaterializedView(redis: fleet.redis)
            let board = RestoreJobQueue(view, in: fleet.producer.cluster)
            func begin() async throws -> String {
                let plan = try #require(try await view.begin(ViewRecovery.randomName(), seen: try await view.look()))
                var bounds: [String: [OffsetRange]] = [:]
                let reader = try KafkaReader(KafkaConfiguration(bootstrap: fleet.broker.bootstrap))
                for topic in [fleet.topics.orders, fleet.topics.registrations] {
                    bounds[topic] = try await reader.bounds(of: topic)
                }
                await reader.close()
                try await board.note(RestorePlan.jobs(bounds, in: fleet.producer.cluster, tails: [[:]]), of: plan)
                return plan
            }
            let lost = try await begin()
            // Redis is emptied in the middle: a worker on that plan learns that it is over.
            _ = try await fleet.redis.send(RedisCommand("FLUSHALL"))
            #expect(try await board.claim(of: lost, by: "dead", lease: .seconds(60)) == .over)
            #expect(try await !view.complete(lost, epoch: "never", tails: [:]))

            let plan = try await begin()
            guard case .job = try await board.claim(of: plan, by: "dead", lease: .seconds(2)) else {
                Issue.record("no job")
                return
            }
            try await self.with(fleet, 2) { members in
                #expect(try await fleet.content(filled.orders, filled.registrations) == before)
                try await fleet.verify([filled.orders[1]])
            }
        }
    }

    /// Fills the fleet with packagers that have stopped when this returns.
    private func filled(
        _ fleet: Fleet
    ) async throws -> (orders: [OrderKey], registrations: [RegistrationKey], content: Fleet.Content) {
        let member = try fleet.member()
        return try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await member.group.run() }
            let (orders, registrations) = try await self.fill(fleet)
            let content = try await fleet.content(orders, registrations)
            await member.group.triggerGracefulShutdown()
            try await tasks.waitForAll()
            return (orders, registrations, content)
        }
    }
}

extension MetricsRegistry {
    /// Returns the value of a gauge, as Prometheus would read it.
    func gauge(_ name: String) -> Double? {
        for line in self.text.split(separator: "\n") where line.hasPrefix("\(name) ") {
            return Double(line.dropFirst(name.utf8.count + 1))
        }
        return nil
    }
}
