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
                RedisCommand("SET", .string("waybill:1:devices:{\(damaged.order)}"), "a string"))
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
                        string.format('{"format":1,"pushToken":"%064x","registered":1741190531000}', number))
                    end
                    """
                _ = try await fleet.redis.send(
                    RedisCommand(
                        "EVAL", .string(script), "1", .string("waybill:1:devices:{\(big)}"), .integer(Int64(count))))
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
                    RedisCommand("HLEN", .string("waybill:1:devices-ended:{\(big)}")))
                #expect((remembered.integer ?? .max) <= 1000)
            }
        }
    }
}
