import Kafka
import Model
import Store
import TestKit
import TestTraits
import Testing

@testable import Gateway

/// Concurrent, contradictory requests of one device. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct RegistrationRaceWireTests {
    typealias Fixture = GatewayFixture

    /// - Parameter isSame: true if the devices keep their push tokens, so that some requests leave no record.
    @Test(arguments: [false, true])
    func racingRegistrationsLeaveKafkaAndRedisConsistent(isSame: Bool) async throws {
        try await Fixture.with(.init(deviceLimit: 1000)) { fixture in
            try await fixture.put("1")
            let devices = (0..<4).map { "device-\($0)" }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<8 {
                    group.addTask {
                        try await fixture.connected { connection in
                            for round in 0..<12 {
                                let path = fixture.registration(devices[(writer + round) % 4], "1")
                                let isEnd = (writer * 5 + round) % 3 == 0
                                let request =
                                    isEnd
                                    ? fixture.request("DELETE", path, token: Fixture.ownToken)
                                    : fixture.request(
                                        "POST", path, token: Fixture.ownToken,
                                        body: isSame
                                            ? #"{"pushToken":"aa"}"#
                                            : "{\"pushToken\":\"\(writer)a\(String(round, radix: 16))\"}")
                                let status = try await connection.exchange(request).status
                                #expect(status == 200 || (status == 201 && !isEnd))
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            let consumer = try KafkaConsumer(
                KafkaConfiguration(bootstrap: fixture.broker.bootstrap, properties: KafkaBroker.quick), group: "g",
                topics: ["waybill.registrations"])
            var last: [String: String?] = [:]
            var count = 0
            let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: fixture.broker.bootstrap))
            let written = try await admin.endOffsets("waybill.registrations").values.reduce(0, +)
            await admin.close()
            #expect(isSame ? written <= 96 : written == 96)
            let deadline = ContinuousClock.now + .seconds(30)
            while count < written {
                try #require(ContinuousClock.now < deadline)
                for record in try await consumer.nextBatch(records: 100, bytes: 1 << 20, wait: .milliseconds(300)) {
                    let key = try RegistrationKey(String(decoding: record.key ?? [], as: UTF8.self))
                    let token = try record.value.map { try RegistrationRecord.decode($0).pushToken.rawValue }
                    last[key.device.rawValue] = .some(token)
                    count += 1
                }
            }
            await consumer.close()
            let registrations = Registrations(redis: fixture.redis)
            let standing = try await registrations.devices(of: [Fixture.key("1")])[0]
            for device in devices {
                let token = standing.first { $0.device.rawValue == device }?.registration.pushToken.rawValue
                #expect(token == last[device] ?? nil)
                let orders = try await registrations.orders(
                    of: DeviceIdentifier(device), type: OrderTypeIdentifier(Fixture.orderType))
                #expect(orders.isEmpty == (token == nil), "who is pushed can list")
            }
        }
    }
}
