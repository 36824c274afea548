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
            let other = fixture.registration("other", "1")
            #expect(try await fixture.once("POST", other, token: Fixture.ownToken, body: Self.body).status == 503)
            #expect(try await fixture.once("DELETE", path, token: Fixture.ownToken).status == 503)
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
            while try await fixture.once("POST", other, token: Fixture.ownToken, body: Self.body).status != 201 {
                try #require(clock.now - back < .seconds(15))
                try await Task.sleep(for: .milliseconds(50))
            }
            #expect(try await fixture.once("DELETE", path, token: Fixture.ownToken).status == 200, "failed before")
        }
    }
}
