import APNS
import Kafka
import Model
import Operations
import Redis
import Store
import TestKit
import Testing

@testable import Pusher

/// What becomes of changed orders, on a real Redis, a broker and an APNs that checks every request.
@Suite struct PushProcessorTests {
    @Test func aDeviceIsToldOnceForManyChangedOrders() async throws {
        try await PusherScene.run { scene in
            for number in 0..<5 {
                try await scene.register("d1", for: "o\(number)", token: 1)
                try await scene.register("d2", for: "o\(number)", token: 2)
            }
            try await scene.processor().process(try (0..<5).map { try scene.changed("o\($0)", offset: Int64($0)) })
            #expect(try await scene.told().sorted() == [PusherScene.token(1), PusherScene.token(2)])
            #expect(scene.pushes("delivered") == 2)
            #expect(scene.pushes("coalesced") == 8)
        }
    }

    @Test func aNotificationLooksAsWalletWantsIt() async throws {
        try await PusherScene.run { scene in
            try await scene.register("d", for: "o", token: 1)
            try await scene.processor().process([try scene.changed("o")])
            let delivery = try #require(try await scene.apns.deliveries().deliveries.first)
            #expect(delivery.topic == PusherFixture.orderType)
            #expect(delivery.pushType == "background")
            #expect(delivery.priority == 5)
            #expect(delivery.expirationEpochSeconds == PusherScene.noon + 7 * 24 * 3600)
            #expect(delivery.status == 200)
        }
    }

    @Test func anOrderThatNobodyWatchesAndOneThatIsRemovedTellNobody() async throws {
        try await PusherScene.run { scene in
            try await scene.register("d", for: "gone", token: 1)
            let removal = KafkaRecord(
                topic: scene.topics.orders, partition: 0, offset: 1, timestampMilliseconds: -1,
                key: Array("\(try PusherScene.order("gone"))".utf8), value: nil)
            let nameless = KafkaRecord(
                topic: scene.topics.orders, partition: 0, offset: 2, timestampMilliseconds: .min, key: nil, value: [1])
            try await scene.processor().process([try scene.changed("o"), removal, nameless])
            #expect(try await scene.told().isEmpty)
            #expect(scene.metrics.counter("waybill_records_unreadable_total") == 1)
            #expect(scene.metrics.counter("waybill_records_consumed_total") == 3)
        }
    }

    @Test func aTokenThatIsGoneTakesExactlyItsRegistrationOff() async throws {
        try await PusherScene.run { scene in
            let gone = try await scene.register("gone", for: "o", token: 1, at: 5000)
            let renewed = try await scene.register("renewed", for: "o", token: 2, at: 7000)
            let well = try await scene.register("well", for: "o", token: 3)
            for token in [1, 2] {
                let answer = APNSSimulatorAnswer(410, "Unregistered", timestampEpochMilliseconds: 6000)
                try await scene.apns.add(
                    APNSSimulatorFault(.answer(answer, delayMilliseconds: 0), token: PusherScene.token(token)))
            }
            try await scene.processor().process([try scene.changed("o")])
            #expect(try await !scene.isRegistered(gone.key))
            #expect(try await scene.isRegistered(renewed.key))
            #expect(try await scene.isRegistered(well.key))
            #expect(try await scene.registrations.orders(of: gone.key.device, type: gone.key.order.orderType).isEmpty)
            #expect(try await scene.tombstones() == 1)
            #expect(scene.retired == 1)
            #expect(scene.pushes("delivered") == 1)
        }
    }

    /// Its tombstone comes behind the new record, so that is published once more.
    @Test func whoRegistersAgainWhileTheOldTokenIsTakenOffIsNotLost() async throws {
        try await PusherScene.run { scene in
            let gone = try await scene.register("d", for: "o", token: 1, at: 5000)
            let answer = APNSSimulatorAnswer(410, "Unregistered", timestampEpochMilliseconds: 6000)
            try await scene.apns.add(APNSSimulatorFault(.answer(answer, delayMilliseconds: 0)))
            let processor = try scene.processor()
            // Registering counts as well: its script reads.
            func reads() async throws -> Int {
                let statistics = try await scene.server.command("INFO", "commandstats")
                let calls = statistics.split(separator: "cmdstat_hget:calls=")
                return calls.dropFirst().first.flatMap { Int($0.prefix { $0.isNumber }) } ?? 0
            }
            let before = try await reads()
            // The tombstone is on its way for as long as the broker is down.
            try scene.broker.setDown()
            async let processed: Void = processor.process([try scene.changed("o")])
            try await eventually("the old one is read") { try await reads() > before }
            let again = try await scene.register("d", for: "o", token: 2, at: 7000)
            try scene.broker.setUp()
            try await processed
            let records = try await scene.publishedRegistrations(2)
            #expect(records.map(\.key) == [Array(gone.key.text.utf8), Array(gone.key.text.utf8)])
            #expect(records.map(\.value) == [nil, again.record.encoded])
            #expect(try await scene.isRegistered(again.key))
            #expect(try await scene.tombstones() == 2)
            #expect(scene.retired == 0, "it had gone by itself")
        }
    }

    /// A pusher that dies between the two leaves a tombstone and what leads to it again; the other way round the token
    /// would come back with the next restoring.
    @Test func aRegistrationOfWhichOnlyTheTombstoneIsThereIsTakenOffByTheNextOne() async throws {
        try await PusherScene.run { scene in
            let gone = try await scene.register("d", for: "o", token: 1, at: 5000)
            let answer = APNSSimulatorAnswer(410, "Unregistered", timestampEpochMilliseconds: 6000)
            try await scene.apns.add(APNSSimulatorFault(.answer(answer, delayMilliseconds: 0)))
            _ = try await scene.producer.produce(
                KafkaMessage(topic: scene.topics.registrations, key: Array(gone.key.text.utf8), value: nil))
            try await scene.processor().process([try scene.changed("o")])
            #expect(try await !scene.isRegistered(gone.key))
            #expect(try await scene.publishedRegistrations(2).allSatisfy { $0.value == nil })
            #expect(scene.retired == 1)
        }
    }

    @Test func aTombstoneThatTheBrokerWasAwayForComesWithTheNextTry() async throws {
        try await PusherScene.run(producer: ["delivery.timeout.ms": "1000"]) { scene in
            let gone = try await scene.register("d", for: "o", token: 1, at: 5000)
            let answer = APNSSimulatorAnswer(410, "Unregistered", timestampEpochMilliseconds: 6000)
            try await scene.apns.add(APNSSimulatorFault(.answer(answer, delayMilliseconds: 0)))
            let processor = try scene.processor()
            let batch = [try scene.changed("o")]
            try scene.broker.setDown()
            await #expect(throws: KafkaError.self) { try await processor.process(batch) }
            #expect(try await scene.isRegistered(gone.key), "it stands until the broker has the tombstone")
            try scene.broker.setUp()
            try await eventually("done") {
                do { try await processor.process(batch) } catch is KafkaError { return false }
                return true
            }
            let records = try await scene.publishedRegistrations(1)
            #expect(records.allSatisfy { $0.key == Array(gone.key.text.utf8) && $0.value == nil })
            #expect(try await !scene.isRegistered(gone.key))
            #expect(scene.retired == 1)
        }
    }

    @Test func whoWasSeededWithoutAStampIsPushedAndTakenOff() async throws {
        try await PusherScene.run { scene in
            let order = try PusherScene.order("o")
            for (device, token) in [("well", 1), ("gone", 2)] {
                let record = "{ \"registered\": 5000, \"pushToken\": \"\(PusherScene.token(token))\" }"
                _ = try await scene.redis.send(
                    RedisCommand("HSET", .string("waybill:devices:{\(order)}"), .string(device), .string(record)))
                _ = try await scene.redis.send(
                    RedisCommand("SADD", .string("waybill:device:{\(device)/\(order.orderType)}"), "o"))
            }
            let answer = APNSSimulatorAnswer(410, "Unregistered", timestampEpochMilliseconds: 6000)
            try await scene.apns.add(
                APNSSimulatorFault(.answer(answer, delayMilliseconds: 0), token: PusherScene.token(2)))
            try await scene.processor().process([try scene.changed("o")])
            #expect(scene.pushes("delivered") == 1)
            #expect(try await scene.registrations.devices(of: [order])[0].map(\.device.rawValue) == ["well"])
            for (device, orders) in [("well", ["o"]), ("gone", [])] {
                let listed = try await scene.registrations.orders(
                    of: DeviceIdentifier(device), type: order.orderType)
                #expect(listed.map(\.rawValue) == orders)
            }
            #expect(try await scene.tombstones() == 1)
        }
    }

    @Test func aTokenThatApnsDoesNotKnowWipesNothing() async throws {
        try await PusherScene.run { scene in
            let registration = try await scene.register("d", for: "o", token: 1)
            let answer = APNSSimulatorAnswer(400, "BadDeviceToken")
            try await scene.apns.add(APNSSimulatorFault(.answer(answer, delayMilliseconds: 0)))
            try await scene.processor().process([try scene.changed("o")])
            #expect(try await scene.isRegistered(registration.key))
            #expect(try await scene.tombstones() == 0)
            #expect(scene.pushes("dropped") == 1)
        }
    }

    @Test func whatApnsCannotTakeNowIsTriedAgain() async throws {
        try await PusherScene.run { scene in
            try await scene.register("d1", for: "o", token: 1)
            try await scene.register("d2", for: "o", token: 2)
            let answer = APNSSimulatorAnswer(500, "InternalServerError")
            try await scene.apns.add(
                APNSSimulatorFault(.answer(answer, delayMilliseconds: 0), token: PusherScene.token(1), count: 2))
            try await scene.processor().process([try scene.changed("o")])
            let deliveries = try await scene.apns.deliveries().deliveries
            #expect(deliveries.filter { $0.token == PusherScene.token(1) }.map(\.status) == [500, 500, 200])
            #expect(deliveries.filter { $0.token == PusherScene.token(2) }.map(\.status) == [200])
            #expect(scene.pushes("retried") == 2)
            #expect(scene.pushes("delivered") == 2)
        }
    }

    @Test func whatApnsNeverTakesIsGivenUpAndCounted() async throws {
        try await PusherScene.run { scene in
            try await scene.register("d1", for: "o", token: 1)
            try await scene.register("d2", for: "o", token: 2)
            let answer = APNSSimulatorAnswer(503, "ServiceUnavailable")
            try await scene.apns.add(
                APNSSimulatorFault(.answer(answer, delayMilliseconds: 0), token: PusherScene.token(1)))
            try await scene.processor().process([try scene.changed("o")])
            #expect(try await scene.told().count { $0 == PusherScene.token(1) } == 6)
            #expect(scene.pushes("dropped") == 1)
            #expect(scene.pushes("delivered") == 1)
        }
    }

    @Test func aRefusedCertificateStopsTheBatchAfterItsFirstPart() async throws {
        try await PusherScene.run { scene in
            for number in 0..<1100 { try await scene.register("d\(number)", for: "o", token: number) }
            let answer = APNSSimulatorAnswer(403, "BadCertificate")
            try await scene.apns.add(APNSSimulatorFault(.answer(answer, delayMilliseconds: 0)))
            try await scene.processor().process([try scene.changed("o")])
            #expect(try await scene.told().count <= 1000)
            #expect(scene.pushes("dropped") == 1100)
        }
    }

    @Test func anOrderTypeWithoutABrandStopsNobodyAndIsCounted() async throws {
        try await PusherScene.run { scene in
            try await scene.register("d", for: "o", token: 1)
            try await scene.processor(clients: [:]).process([try scene.changed("o")])
            #expect(try await scene.told().isEmpty)
            #expect(scene.metrics.text.contains("credential=\"none\",host=\"\(scene.host)\",outcome=\"dropped\"} 1"))
        }
    }

    @Test func aBatchIsNotLostWhileApnsIsAway() async throws {
        try await PusherScene.run { scene in
            try await scene.register("d1", for: "o", token: 1)
            try await scene.register("d2", for: "o", token: 2)
            let processor = try scene.processor()
            try await scene.apns.add(APNSSimulatorFault(.cut))
            await #expect(throws: PushProcessor.NotDone.self) { try await processor.process([try scene.changed("o")]) }
            #expect(scene.pushes("dropped") == 0)
            try await scene.apns.clearFaults()
            try await scene.apns.clearDeliveries()
            try await processor.process([try scene.changed("o")])
            #expect(try await scene.told().sorted() == [PusherScene.token(1), PusherScene.token(2)])
            #expect(scene.pushes("delivered") == 2)
        }
    }

    @Test func whoWasToldIsNotToldAgainWhenTheBatchIsTriedAgain() async throws {
        try await PusherScene.run { scene in
            // Sent 1,000 at a time: the last one alone, behind the verdicts of the others.
            for number in 1...1000 { try await scene.register("d\(number)", for: "first", token: number) }
            try await scene.register("last", for: "second", token: 2000)
            let processor = try scene.processor()
            try await scene.apns.add(APNSSimulatorFault(.cut, token: PusherScene.token(2000)))
            let batch = [try scene.changed("first"), try scene.changed("second", offset: 1)]
            await #expect(throws: PushProcessor.NotDone.self) { try await processor.process(batch) }
            #expect(scene.pushes("delivered") == 1000)
            try await scene.apns.clearFaults()
            try await processor.process(batch)
            #expect(scene.pushes("delivered") == 1001)
            // The same records once more are a redelivery: who knows who was told.
            try await processor.process(batch)
            #expect(scene.pushes("delivered") == 2002)
        }
    }

    @Test func aBatchIsNotLostWhileRedisIsAway() async throws {
        try await PusherScene.run { scene in
            let processor = try scene.processor()
            await scene.server.stop()
            await #expect(throws: StoreError.self) { try await processor.process([try scene.changed("o")]) }
            #expect(try await scene.told().isEmpty)
        }
    }

    @Test func whoRegistersSoonAfterAChangeIsTold() async throws {
        try await PusherScene.run { scene in
            for (name, modified) in [("new", PusherScene.noon - 899), ("old", PusherScene.noon - 901)] {
                _ = try await scene.redis.send(
                    RedisCommand(
                        "HSET", .string("waybill:order:{\(try PusherScene.order(name))}"), "version", "1", "modified",
                        .integer(modified)))
            }
            var records: [KafkaRecord] = []
            for (number, name) in ["new", "old", "unknown"].enumerated() {
                let (key, record) = try await scene.register(
                    "d\(number)", for: name, token: number, at: PusherScene.noon * 1000)
                records.append(
                    KafkaRecord(
                        topic: scene.topics.registrations, partition: 0, offset: Int64(number),
                        timestampMilliseconds: PusherScene.noon * 1000, key: Array(key.text.utf8),
                        value: record.encoded))
            }
            // Read an hour late.
            var processor = try scene.processor()
            processor.now = { (PusherScene.noon + 3600) * 1000 }
            try await processor.process(records)
            #expect(try await scene.told() == [PusherScene.token(0)])
        }
    }

    @Test func whoIsNotThereYetIsWaitedForWhileRedisIsRestored() async throws {
        try await PusherScene.run { scene in
            var processor = try scene.processor()
            processor.view = ViewWatch(View(redis: scene.redis))
            let change = try scene.changed("o")
            await #expect(throws: StoreError.self) { try await processor.process([change]) }
            #expect(try await scene.told().isEmpty)
            try await scene.register("d", for: "o", token: 1)
            try await scene.redis.completeView()
            try await processor.process([change])
            #expect(try await scene.told() == [PusherScene.token(1)])
        }
    }
}
