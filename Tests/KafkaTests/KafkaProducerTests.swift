import TestKit
import TestTraits
import Testing

@testable import Kafka

@Suite(.server, .timeLimit(.minutes(1)))
struct KafkaProducerTests {
    @Test func eachMessageHasItsOwnResultInOrder() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 2)])
        let orders = broker.topics[0].name
        let producer = try KafkaProducer(configuration(broker, ["message.max.bytes": "5000"]))
        let outcomes = await producer.produce([
            KafkaMessage(topic: orders, partition: 0, key: nil, value: [1]),
            KafkaMessage(topic: orders, partition: 0, key: nil, value: [UInt8](repeating: 0, count: 6000)),
            KafkaMessage(topic: orders, partition: 0, key: nil, value: [2]),
            KafkaMessage(topic: orders, partition: 9, key: nil, value: [3]),
            KafkaMessage(topic: orders, partition: 1, key: nil, value: [4]),
        ])
        #expect(outcomes.count == 5)
        #expect(try outcomes[0].get() == KafkaPosition(topic: orders, partition: 0, offset: 0))
        #expect(throws: KafkaError(.messageTooLarge, "")) { try outcomes[1].get() }
        #expect(try outcomes[2].get().offset == 1)
        #expect(throws: KafkaError(.unknownTopic, "")) { try outcomes[3].get() }
        #expect(try outcomes[4].get() == KafkaPosition(topic: orders, partition: 1, offset: 0))
        await producer.close()
    }

    @Test func aMessageOfFourMebibytesFitsAndOneOfEightIsRefused() async throws {
        let broker = try KafkaBroker(topics: [.init("dead", partitions: 1)])
        let producer = try KafkaProducer(configuration(broker))
        let large = [UInt8](repeating: 7, count: 4 << 20)
        _ = try await producer.produce(KafkaMessage(topic: "dead", key: nil, value: large))
        await #expect(throws: KafkaError(.messageTooLarge, "")) {
            try await producer.produce(KafkaMessage(topic: "dead", key: nil, value: large + large))
        }
        await producer.close()
    }

    @Test func aMessageThatIsNotDeliveredInTimeFails() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 1)])
        let producer = try KafkaProducer(configuration(broker, ["delivery.timeout.ms": "500"]))
        // The first delivery may need longer than that to find the broker.
        try await eventually("a delivery") {
            (try? await producer.produce(KafkaMessage(topic: "orders", key: nil, value: []))) != nil
        }
        try broker.setDown()
        let outcomes = await producer.produce(
            (0..<5).map { _ in KafkaMessage(topic: "orders", key: nil, value: []) })
        #expect(outcomes.count == 5)
        for outcome in outcomes { #expect(throws: KafkaError(.timedOut, "")) { try outcome.get() } }
        try broker.setUp()
        await producer.close()
    }

    @Test func aFullQueueIsWaitedForAndThenRefused() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 1)])
        try broker.setDown()
        let producer = try KafkaProducer(
            configuration(broker, ["queue.buffering.max.messages": "3", "delivery.timeout.ms": "2000"]),
            queueWait: .milliseconds(100))
        let outcomes = await producer.produce((0..<5).map { KafkaMessage(topic: "orders", key: nil, value: [$0]) })
        let codes = outcomes.map { outcome -> KafkaError.Code? in
            if case .failure(let error) = outcome { error.code } else { nil }
        }
        #expect(codes == [.timedOut, .timedOut, .timedOut, .queueFull, .queueFull])
        await producer.close()
    }

    @Test func aSmallQueueCarriesMoreThanItHoldsWhenItDrains() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 1)])
        let orders = broker.topics[0].name
        let producer = try KafkaProducer(configuration(broker, ["queue.buffering.max.messages": "10"]))
        let outcomes = await producer.produce(
            (0..<200).map { KafkaMessage(topic: orders, partition: 0, key: nil, value: [$0]) })
        #expect(try outcomes.map { try $0.get().offset } == Array(0..<200))
        await producer.close()
    }

    @Test func closingWaitsForMessagesInFlightAndRefusesLaterOnes() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 1)])
        let orders = broker.topics[0].name
        let producer = try KafkaProducer(configuration(broker, ["linger.ms": "200"]))
        async let outcomes = producer.produce((0..<100).map { KafkaMessage(topic: orders, key: nil, value: [$0]) })
        try await eventually("queued or done") {
            await producer.close()
            return true
        }
        // Each message has a result: delivered if it was queued before closing, refused if after.
        for case .failure(let error) in await outcomes { #expect(error.code == .closed) }
        await #expect(throws: KafkaError(.closed, "")) {
            try await producer.produce(KafkaMessage(topic: orders, key: nil, value: nil))
        }
    }

    @Test func aRetriedRequestIsNotDeliveredTwice() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 1)])
        let producer = try KafkaProducer(configuration(broker))
        // Produce is API key 0; 7 is REQUEST_TIMED_OUT. Source: Kafka protocol
        try broker.fail(apiKey: 0, with: [7, 7])
        _ = try await producer.produce(KafkaMessage(topic: "orders", key: nil, value: [1]))
        let admin = try KafkaAdmin(configuration(broker))
        #expect(try await admin.endOffsets("orders") == [0: 1])
        await admin.close()
        await producer.close()
    }

    @Test func aProducerReplacesItsHandleAfterAFatalError() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 1)])
        let log = EventLog()
        let producer = try KafkaProducer(configuration(broker, onEvent: log.record))
        _ = try await producer.produce(KafkaMessage(topic: "orders", key: nil, value: [1]))
        // 45 is OUT_OF_ORDER_SEQUENCE_NUMBER, which is fatal for the first request in line. Source: Kafka protocol
        try broker.fail(apiKey: 0, with: [45])
        do throws(KafkaError) {
            _ = try await producer.produce(KafkaMessage(topic: "orders", key: nil, value: [2]))
            Issue.record("no failure")
        } catch {
            #expect(error.code != .timedOut, "\(error)")
        }
        try await eventually("it produces again") {
            do throws(KafkaError) {
                _ = try await producer.produce(KafkaMessage(topic: "orders", key: nil, value: [3]))
                return true
            } catch {
                return false
            }
        }
        #expect(log.contains(.error, "new producer"))
        await producer.close()
        await #expect(throws: KafkaError(.closed, "")) {
            try await producer.produce(KafkaMessage(topic: "orders", key: nil, value: nil))
        }
    }

    /// Another call replaces a failed handle while this one has messages left to queue.
    @Test func aReplacedHandleIsNoClosedProducer() async throws {
        let producer = try KafkaProducer(KafkaConfiguration(bootstrap: "127.0.0.1:1"))
        producer.core.stop()
        let message = KafkaMessage(topic: "orders", key: nil, value: [1])
        let error = await #expect(throws: KafkaError.self) { try await producer.produce(message) }
        #expect(error?.code == .refused)
        #expect(error?.isRetriable == true)
        await producer.close()
        await #expect(throws: KafkaError(.closed, "")) { try await producer.produce(message) }
    }

    @Test func theFirstMessageToADeclaredTopicIsDeliveredAtOnce() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 8)])
        let producer = try KafkaProducer(configuration(broker), topics: ["orders"])
        // librdkafka checks its topics once a second; a service has more time before its first message.
        try await Task.sleep(for: .seconds(3))
        let start = ContinuousClock.now
        _ = try await producer.produce(KafkaMessage(topic: "orders", key: [1], value: [1]))
        #expect(ContinuousClock.now - start < .milliseconds(500))
        await producer.close()
    }
}
