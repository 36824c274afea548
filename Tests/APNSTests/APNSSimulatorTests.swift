import Foundation
import TestTraits
import Testing

@testable import TestKit

/// The simulator as seen by third-party clients: curl and nghttp.
@Suite(.server, .serialized, APNSSimulatorFixture.Once()) struct APNSSimulatorTests {
    @Test func aPushWithACertificateIsAcceptedAndRecorded() async throws {
        try await APNSSimulatorFixture.run { fixture in
            let identifier = "0a1b2c3d-0000-4000-8000-00000000000f"
            let answer = try await fixture.push(["-i", "-H", "apns-id: \(identifier)", "-H", "apns-expiration: 12"])
            #expect(answer.status == 200)
            #expect(answer.text.contains("apns-id: \(identifier)"))
            let journal = try await fixture.simulator.deliveries()
            let delivery = try #require(journal.deliveries.first)
            #expect(delivery.token == APNSSimulatorFixture.token)
            #expect(delivery.topic == APNSSimulatorFixture.topic)
            #expect(delivery.apnsID.description == identifier)
            #expect(delivery.expirationEpochSeconds == 12)
            #expect(delivery.status == 200)
            #expect(delivery.connection == 1)
        }
    }

    @Test(
        arguments: [
            (["-X", "GET"], 405, "MethodNotAllowed"), (["-d", ""], 400, "PayloadEmpty"),
            (["-d", "nonsense"], 400, "BadPayload"), (["-H", "apns-priority: 10"], 400, "DuplicateHeaders"),
            (["-H", "apns-topic: order.com.example.other"], 400, "TopicDisallowed"),
            (["-H", "apns-id: x"], 400, "BadMessageId"), (["-H", "apns-expiration: soon"], 400, "BadExpirationDate"),
            (["-H", "apns-collapse-id: \(String(repeating: "c", count: 65))"], 400, "BadCollapseId"),
        ] as [([String], Int, String)])
    func aViolatedRuleIsAnswered(_ arguments: [String], _ status: Int, _ reason: String) async throws {
        try await APNSSimulatorFixture.run { fixture in
            let answer = try await fixture.push(arguments)
            #expect(answer.status == status)
            #expect(answer.text.contains(#"{"reason":"\#(reason)"}"#))
        }
    }

    @Test(arguments: [4097, 90_000])
    func aBodyThatIsTooLargeIsReadAndRefused(_ bytes: Int) async throws {
        try await APNSSimulatorFixture.run { fixture in
            let answer = try await fixture.push(["-d", String(repeating: "x", count: bytes)])
            let said = String(answer.text.suffix(200))
            #expect(said.contains(#"{"reason":"PayloadTooLarge"}"#))
            #expect(answer.status == 413)
        }
    }

    @Test func aClientWithoutCredentialsIsRefused() async throws {
        try await APNSSimulatorFixture.run { fixture in
            let answer = try await fixture.push(identity: nil)
            #expect(answer.status == 403)
            #expect(answer.text.contains("MissingProviderToken"))
        }
    }

    @Test func aSignedTokenIsTakenAndAForgedOneIsNot() async throws {
        try await APNSSimulatorFixture.run { fixture in
            let token = try fixture.providerToken(issuedEpochSeconds: Int64(Date().timeIntervalSince1970))
            let topic = "apns-topic: \(APNSSimulatorFixture.topic)"
            let good = try await fixture.push(["-H", "authorization: bearer \(token)", "-H", topic], identity: nil)
            #expect(good.status == 200)
            let flipped = token.dropLast(10) + (token.hasSuffix("A") ? "BBBBBBBBBB" : "AAAAAAAAAA")
            let forged = try await fixture.push(["-H", "authorization: bearer \(flipped)", "-H", topic], identity: nil)
            #expect(forged.status == 403)
            #expect(forged.text.contains("InvalidProviderToken"))
            let missing = try await fixture.push(["-H", "authorization: bearer \(token)"], identity: nil)
            #expect(missing.text.contains("MissingTopic"))
        }
    }

    @Test func theStreamLimitIsOneUntilTheTokenIsAccepted() async throws {
        try await APNSSimulatorFixture.run { fixture in
            let token = try fixture.providerToken(issuedEpochSeconds: Int64(Date().timeIntervalSince1970))
            // Delayed, so that nghttp is still connected when the new limit arrives.
            try await fixture.simulator.add(APNSSimulatorFault(.delay(milliseconds: 300)))
            let said = try await fixture.nghttp(
                ["-m3", "-H", "authorization: bearer \(token)", "-H", "apns-topic: \(APNSSimulatorFixture.topic)"],
                identity: nil)
            #expect(said.contains("[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1]"))
            // nghttp opens three streams together, or one by one if the limit has already arrived.
            let answers = said.components(separatedBy: ":status: 200").count - 1
            #expect(answers == 3 || said.contains("(error_code=REFUSED_STREAM(0x07))"))
            #expect(said.contains("[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1000]"))
        }
    }

    @Test func aCertificateOfAnotherRootEndsTheHandshake() async throws {
        try await APNSSimulatorFixture.run { fixture in
            // The key usage of a server certificate does not allow use as a client certificate.
            let answer = try await fixture.push(identity: "server-certificate.pem", key: "server-key.pem")
            #expect(answer.status == 0)
            #expect(try await fixture.simulator.deliveries().deliveries.isEmpty)
        }
    }

    @Test func faultsOverTheAdminPortDecideTheAnswers() async throws {
        try await APNSSimulatorFixture.run { fixture in
            let body = #"{"status":410,"reason":"Unregistered","timestampEpochMilliseconds":5,"count":1}"#
            #expect(try await fixture.admin("faults", ["-d", body]).status == 201)
            let gone = try await fixture.push()
            #expect(gone.status == 410)
            #expect(gone.text.contains(#"{"reason":"Unregistered","timestamp":5}"#))
            #expect(try await fixture.push().status == 200)
            #expect(try await fixture.admin("faults", ["-d", #"{"cut":true}"#]).status == 201)
            #expect(try await fixture.push().status == 0)
            #expect(try await fixture.admin("faults").text.contains(#""cut":true"#))
            #expect(try await fixture.admin("faults", ["-X", "DELETE"]).status == 200)
            #expect(try await fixture.push().status == 200)
            #expect(try await fixture.admin("faults", ["-d", #"{"cat":true}"#]).status == 400)
            let statuses = try await fixture.simulator.deliveries().deliveries.map(\.status)
            #expect(statuses == [410, 200, 0, 200])
        }
    }

    @Test func goAwayNamesTheLastStreamThatCounts() async throws {
        try await APNSSimulatorFixture.run { fixture in
            try await fixture.simulator.add(APNSSimulatorFault(.goAway(reason: "Shutdown", processed: true), count: 1))
            let processed = try await fixture.nghttp(["-m3"])
            #expect(processed.contains(#"opaque_data(21)=[{"reason":"Shutdown"}]"#))
            #expect(processed.contains("(last_stream_id=13, error_code=NO_ERROR"))
            #expect(try await fixture.simulator.deliveries().last == 1)
            try await fixture.simulator.add(APNSSimulatorFault(.goAway(reason: "Shutdown", processed: false), count: 1))
            let unprocessed = try await fixture.nghttp(["-m3"])
            #expect(unprocessed.contains("(last_stream_id=0, error_code=NO_ERROR"))
            #expect(try await fixture.simulator.deliveries().last == 1)
        }
    }

    @Test func aStreamLimitFaultLastsUntilCleared() async throws {
        try await APNSSimulatorFixture.run { fixture in
            try await fixture.simulator.add(APNSSimulatorFault(.maxConcurrentStreams(2)))
            let said = try await fixture.nghttp(["-m3"])
            #expect(said.contains("[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):2]"))
            try await fixture.simulator.clearFaults()
            #expect(try await fixture.nghttp(["-m3"]).contains("[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1000]"))
            // A third stream may have been opened, and refused, before the client knew the limit.
            #expect(try await fixture.simulator.deliveries().deliveries.filter { $0.status == 200 }.count >= 5)
        }
    }

    @Test(arguments: [
        APNSSimulatorFault.Effect.cut, .goAway(reason: "Shutdown", processed: false), .silence,
    ])
    func aConnectionInUseCanBeHitAtOnce(_ effect: APNSSimulatorFault.Effect) async throws {
        try await APNSSimulatorFixture.run { fixture in
            try await fixture.simulator.add(APNSSimulatorFault(.delay(milliseconds: 3000), count: 1))
            async let pushed = fixture.push(["-m", "5"])
            _ = try await fixture.simulator.deliveries(after: 0, wait: .seconds(5))
            let connections = try await fixture.simulator.connections()
            #expect(connections.map(\.openStreams) == [1])
            #expect(connections.map(\.certificateTopic) == [APNSSimulatorFixture.topic])
            #expect(try await fixture.simulator.add(APNSSimulatorFault(effect, isImmediate: true)) == 1)
            let status = try await pushed.status
            // After GOAWAY the recorded request is still answered; after the other two faults it never is.
            if case .goAway = effect { #expect(status == 200) } else { #expect(status == 0) }
        }
    }

    @Test func aDeliveryAnswersAWaitingAdminRequest() async throws {
        try await APNSSimulatorFixture.run { fixture in
            async let waited = fixture.admin("deliveries?after=0&wait=20")
            async let pushed = fixture.push()
            #expect(try await pushed.status == 200)
            let began = ContinuousClock.now
            let answer = try await waited
            #expect(ContinuousClock.now - began < .seconds(5))
            #expect(answer.text.contains(#""sequence":1,"token":"\#(APNSSimulatorFixture.token)""#))
            let nothing = try await fixture.admin("deliveries?after=1&wait=0.1")
            #expect(nothing.text.contains(#"{"deliveries":[],"last":1,"dropped":0}"#))
        }
    }
}
