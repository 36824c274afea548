import Kafka
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Gateway

/// The gateway during and after a Kafka outage.
@Suite(.serialized, .timeLimit(.minutes(2))) struct KafkaOutageTests {
    typealias Fixture = GatewayFixture
    private static let body = #"{"pushToken":"aa11"}"#

    @Test func aFailedDeliveryLimitsTheCircuitBreakerToOneRequest() {
        var gate = KafkaCircuitBreaker.State(limit: 3)
        let first = [gate.enter(), gate.enter(), gate.enter(), gate.enter()]
        #expect(first == [true, true, true, false])
        gate.leave(after: .timedOut)
        // Two requests still wait, so no other tries.
        var second = [gate.enter()]
        gate.leave(after: .transport)
        gate.leave(after: .timedOut)
        second += [gate.enter(), gate.enter()]
        #expect(second == [false, true, false])
        gate.leave(after: nil)
        let third = [gate.enter(), gate.enter(), gate.enter(), gate.enter()]
        #expect(third == [true, true, true, false])
    }

    /// One shop's order that is larger than the topic takes must not refuse the others' changes.
    @Test func aMessageThatIsTooLargeSaysNothingAboutKafka() {
        var gate = KafkaCircuitBreaker.State(limit: 2)
        var entered = [gate.enter()]
        gate.leave(after: .messageTooLarge)
        entered += [gate.enter(), gate.enter()]
        #expect(entered == [true, true, true])
        gate.leave(after: .transport)
        gate.leave(after: .messageTooLarge)
        entered = [gate.enter(), gate.enter()]
        #expect(entered == [true, false], "Kafka is still away")
    }

    /// The test is slow, because the outage must outlast several deliveries that time out.
    @Test(.server) func registrationsFailFastDuringAKafkaOutage() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            let path = fixture.registration("device", "1")
            #expect(try await fixture.once("POST", path, token: Fixture.ownToken, body: Self.body).status == 201)
            try fixture.broker.setDown()
            let clock = ContinuousClock()
            let start = clock.now
            // The first request detects the outage; later ones are answered without a wait for Kafka, except those that
            // try a delivery: one of each round. On a busy machine whole rounds are slow, but not all of them.
            let quick = GatewayServer.deliveryLimit - .seconds(1)
            // Another push token: the same one needs no record.
            let changed = #"{"pushToken":"bb"}"#
            #expect(try await fixture.once("POST", path, token: Fixture.ownToken, body: changed).status == 503)
            var quickAnswers = 0
            while quickAnswers < 40 || clock.now - start < .seconds(10) {
                try #require(clock.now - start < .seconds(90), "\(quickAnswers) quick answers")
                try await withThrowingTaskGroup(of: (status: Int, retry: String?, time: Duration).self) { group in
                    for device in 0..<20 {
                        group.addTask {
                            let began = clock.now
                            let answer = try await fixture.once(
                                "POST", fixture.registration("d\(device)", "1"), token: Fixture.ownToken,
                                body: Self.body)
                            return (answer.status, answer["retry-after"], clock.now - began)
                        }
                    }
                    for try await answer in group {
                        #expect(answer.status == 503, "after \(answer.time)")
                        #expect(answer.retry == "5")
                        if answer.time < quick { quickAnswers += 1 }
                    }
                }
                let package = try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken)
                #expect(package.status == 200)
            }
            try fixture.broker.setUp()
            let back = clock.now
            while try await fixture.once("POST", path, token: Fixture.ownToken, body: changed).status != 200 {
                try #require(clock.now - back < .seconds(15))
                try await Task.sleep(for: .milliseconds(50))
            }
            #expect(try await fixture.once("DELETE", path, token: Fixture.ownToken).status == 200)
        }
    }
}
