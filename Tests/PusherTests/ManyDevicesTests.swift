import Glibc
import Kafka
import Model
import Redis
import TestKit
import TestTraits
import Testing

@testable import Pusher
@testable import Store

/// One order with very many invented devices, and orders that cannot be looked up: the others are notified.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct ManyDevicesTests {
    private func fill(_ fixture: PusherFixture, _ order: String, _ count: Int) async throws {
        let script = """
            for number = tonumber(ARGV[1]), tonumber(ARGV[2]) do
              redis.call('HSET', KEYS[1], 'made-up-' .. number,
                string.format('{"format":1,"pushToken":"%064x","registered":%d}', 1000000 + number, number))
            end
            """
        for first in stride(from: 0, to: count, by: 20_000) {
            _ = try await fixture.redis.send(
                RedisCommand(
                    "EVAL", .string(script), "1", .string(StoreKeys.devices(try PusherFixture.order(order))),
                    .integer(Int64(first)), .integer(Int64(min(count, first + 20_000) - 1))))
        }
    }

    @Test func anOrderWithHalfAMillionDevicesDoesNotDelayOtherOrders() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-devices")
            try await self.fill(fixture, "big", 550_000)
            for number in 0..<5 { try await fixture.register("d\(number)", for: "o\(number)", token: number) }
            try await fixture.serve(directory) {
                for number in 0..<5 {
                    try await fixture.publish(["big", "o\(number)", "big"])
                    try await eventually("the other customer is notified", within: .seconds(60)) {
                        try await fixture.delivered().contains(PusherFixture.token(number))
                    }
                }
                try await eventually("committed", within: .seconds(60)) { try await fixture.lag() == 0 }
            }
            #expect(fixture.metrics.counter("waybill_push_devices_skipped_total") >= 548_000)
            let notified = try await Set(fixture.delivered())
            #expect(notified.count <= Registrations.notifiedLimit + 5)
        }
    }

    @Test func anUnreadableOrderIsSkipped() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-devices")
            try await fixture.register("d", for: "good", token: 1)
            _ = try await fixture.redis.send(
                RedisCommand("SET", .string(StoreKeys.devices(try PusherFixture.order("bad"))), "a string"))
            try await fixture.serve(directory) {
                try await fixture.publish(["bad", "good"])
                try await eventually("committed") { try await fixture.lag() == 0 }
            }
            #expect(try await fixture.notified() == [PusherFixture.token(1)])
            #expect(fixture.metrics.counter("waybill_records_unreadable_total") == 1)
        }
    }

    /// Orders whose master does not answer wait separately, and are notified when it is back.
    @Test func ordersOnAnUnavailableMasterDoNotDelayOthers() async throws {
        let cluster = try await RedisCluster.start(arguments: ["--cluster-require-full-coverage", "no"])
        try await PusherFixture.run(on: cluster.masters[0], redisDeadline: .seconds(2)) { fixture in
            let directory = try TemporaryDirectory("pusher-devices")
            for number in 0..<12 { try await fixture.register("d\(number)", for: "o\(number)", token: number) }
            let topology = try await fixture.redis.topology()
            let suffix = ":\(cluster.masters[1].port)"
            let away = try Set(
                (0..<12).filter {
                    let key = StoreKeys.devices(try PusherFixture.order("o\($0)"))
                    return topology.master(of: key)?.description.hasSuffix(suffix) == true
                })
            #expect(!away.isEmpty)
            #expect(away.count < 12)
            try await fixture.serve(directory) {
                // Connections exist before the master is down.
                try await fixture.publish((0..<12).map { "o\($0)" })
                try await eventually("all are notified") { try await Set(fixture.delivered()).count == 12 }
                cluster.masters[1].signal(SIGSTOP)
                defer { cluster.masters[1].signal(SIGCONT) }
                let before = try await fixture.delivered().count
                // One by one: an order of the master that is down is alone in its batch.
                for number in away.sorted() { try await fixture.publish(["o\(number)"]) }
                for number in 0..<12 where !away.contains(number) { try await fixture.publish(["o\(number)"]) }
                try await eventually("the others are notified") {
                    let notified = try await fixture.delivered().dropFirst(before)
                    return Set(notified) == Set((0..<12).filter { !away.contains($0) }.map(PusherFixture.token))
                }
                #expect(try await fixture.lag() > 0)
                cluster.masters[1].signal(SIGCONT)
                try await eventually("all are notified again", within: .seconds(60)) {
                    try await Set(fixture.delivered().dropFirst(before)).count == 12
                }
                try await eventually("committed") { try await fixture.lag() == 0 }
            }
        }
        await cluster.stop()
    }
}
