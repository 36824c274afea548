import Foundation
import Kafka
import Logging
import Model
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Restoring and removing with odd device names, damaged keys, and very many devices.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct DeviceRestoreTests {
    private static let odd = ["}", "{", "}x", "{}", "a/{b}c"]
    private static let moment: Int64 = 1_741_190_531_000

    /// Publishes registrations that Redis never saw.
    private func publish(_ fleet: Fleet, _ keys: [RegistrationKey]) async throws -> RegistrationRecord {
        let record = RegistrationRecord(pushToken: try PushToken("ab12"), registeredEpochMilliseconds: Self.moment)
        let messages = keys.map {
            KafkaMessage(topic: fleet.topics.registrations, key: Array($0.text.utf8), value: record.encoded)
        }
        for outcome in await fleet.producer.produce(messages) { _ = try outcome.get() }
        return record
    }

    @Test func unusualDevicesAreRestoredAndADamagedKeyIsSkipped() async throws {
        try await Fleet.run(isCluster: true) { fleet in
            let keys = try Self.odd.enumerated().map {
                RegistrationKey(device: try DeviceIdentifier($1), order: try ChangeLog.key("o\($0)"))
            }
            let damaged = RegistrationKey(device: try DeviceIdentifier("d"), order: try ChangeLog.key("damaged"))
            let record = try await self.publish(fleet, keys + [damaged])
            for message in [
                KafkaMessage(topic: fleet.topics.registrations, key: Array("no key".utf8), value: [1]),
                KafkaMessage(
                    topic: fleet.topics.registrations, key: Array("\(keys[0].text)/x/y".utf8), value: [1]),
            ] { _ = try await fleet.producer.produce(message) }
            _ = try await fleet.redis.send(
                RedisCommand("SET", .string("waybill:devices:{\(damaged.order)}"), "a string"))
            let member = try fleet.member()
            try await fleet.working([member]) {
                try await eventually("complete", within: .seconds(60)) { try await fleet.isComplete() }
                let registrations = Registrations(redis: fleet.redis)
                for key in keys {
                    #expect(try await registrations.registration(key) == record)
                    let listed = try await registrations.orders(of: key.device, type: key.order.orderType)
                    #expect(listed == [key.order.order])
                }
                #expect(member.metrics.counter("waybill_restore_refused_total") == 3)
                // Skipped records are not missed when the view is judged again.
                let restorer = RegistrationRestorer(
                    registrations: registrations, metrics: RestoreMetrics(factory: member.metrics),
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
                let again = KafkaRecord(
                    topic: fleet.topics.registrations, partition: 0, offset: 9, timestampMilliseconds: Self.moment,
                    key: Array(damaged.text.utf8), value: record.encoded)
                #expect(try await restorer.stand([again]))
            }
        }
    }

    /// A Redis that the previous version wrote, with devices in clear text and a complete view.
    @Test func anUpgradeKeepsRegistrationsAndDeletesKeysOfTheEarlierFormat() async throws {
        try await Fleet.run { fleet in
            let keys = try (0..<40).map {
                RegistrationKey(device: try DeviceIdentifier("device-\($0 % 10)"), order: try ChangeLog.key("o\($0)"))
            }
            let record = try await self.publish(fleet, Array(keys.dropLast()))
            let value = String(decoding: record.encoded, as: UTF8.self)
            func send(_ words: String...) async throws -> RedisValue {
                try await fleet.redis.send(RedisCommand(words.map { .string($0) }))
            }
            for key in keys {
                _ = try await send("HSET", "waybill:devices:{\(key.order)}", key.device.rawValue, value)
                let device = "{\(key.device.rawValue)/\(key.order.orderType)}"
                _ = try await send("SADD", "waybill:device:\(device)", key.order.order.rawValue)
                let stamp = "1:\(Self.moment)"
                _ = try await send("HSET", "waybill:device-stamps:\(device)", key.order.order.rawValue, "\(stamp):1")
            }
            let information = try #require(try await send("INFO", "replication").text)
            let line = information.split(whereSeparator: \.isNewline).first { $0.hasPrefix("master_replid:") }
            let history = try #require(line).dropFirst("master_replid:".count)
            _ = try await send("SET", "waybill:epoch", "random:\(history)")
            _ = try await send("HSET", "waybill:tail:offsets", "waybill.registrations/0", "\(Int32.max)")

            try await fleet.working([try fleet.member()]) {
                try await eventually("complete") { try await fleet.isComplete() }
            }
            let registrations = Registrations(redis: fleet.redis)
            func listed(_ number: Int) async throws -> Set<OrderIdentifier> {
                Set(try await registrations.orders(of: keys[number].device, type: keys[number].order.orderType))
            }
            #expect(try await listed(3) == Set([3, 13, 23, 33].map { keys[$0].order.order }))
            // A gateway of the previous version registered the last one when the view was already complete.
            #expect(try await listed(9).count == 3)
            let sweep = EarlierFormatSweep(
                MaterializedView(redis: fleet.redis), logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                delay: .milliseconds(10))
            #expect(try await !sweep.sweep(), "something was found")
            #expect(try await sweep.sweep(), "nothing was left")
            #expect(try await listed(9).count == 4)
            let names = (try await send("KEYS", "*").array ?? []).compactMap(\.text)
            #expect(!names.contains { $0.contains("device-9") || $0.hasPrefix("waybill:tail") })
            #expect(!names.contains("waybill:epoch"))
            for key in keys { #expect(try await registrations.registration(key) == record) }
        }
    }

    @Test func removingAnOrderWithManyDevicesDelaysNoOtherOrder() async throws {
        try await Fleet.run { fleet in
            try await fleet.working([try fleet.member()]) {
                try await fleet.publish([("order.replaced", "big", "1", ChangeLog.document("1"))])
                try await fleet.settle()
                let big = try ChangeLog.key("big")
                let count = 20_000
                let script = """
                    for number = 1, tonumber(ARGV[1]) do
                      redis.call('HSET', KEYS[1], 'made-up-' .. number,
                        string.format('{"pushToken":"%064x","registered":1741190531000}', number))
                    end
                    """
                _ = try await fleet.redis.send(
                    RedisCommand(
                        "EVAL", .string(script), "1", .string("waybill:devices:{\(big)}"), .integer(Int64(count))))
                try await fleet.publish([("order.removed", "big", "2", nil)])
                for number in 0..<5 {
                    try await fleet.publish([("order.replaced", "small-\(number)", "1", ChangeLog.document("1"))])
                    try await eventually("packaged", within: .seconds(20)) {
                        let key = try ChangeLog.key("small-\(number)")
                        return try await OrderStore(redis: fleet.redis).orders([key])[0].get() != nil
                    }
                }
                try await fleet.settle()
                #expect(try await Registrations(redis: fleet.redis).devices(of: [big]) == [[]])
                let ended = try await fleet.admin.endOffsets(fleet.topics.registrations).values.reduce(0, +)
                #expect(ended >= Int64(count))
                let remembered = try await fleet.redis.send(
                    RedisCommand("HLEN", .string("waybill:devices-ended:{\(big)}")))
                #expect((remembered.integer ?? .max) <= 1000)
            }
        }
    }
}
