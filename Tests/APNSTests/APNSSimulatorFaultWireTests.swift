import Foundation
import Model
import TestTraits
import Testing

@testable import APNS
@testable import TestKit

/// Every fault as seen by third-party clients, and by the pusher's client if many streams are needed.
@Suite(.server, .serialized, APNSSimulatorFixture.Once()) struct APNSSimulatorFaultWireTests {
    @Test func aPairOfGoAwaysNamesFirstEveryStreamAndThenTheLast() async throws {
        try await APNSSimulatorFixture.run { fixture in
            try await fixture.simulator.add(APNSSimulatorFault(.delay(milliseconds: 1000)))
            async let said = fixture.nghttp(["-m2"])
            _ = try await fixture.simulator.deliveries(after: 1, wait: .seconds(5))
            let goAway = APNSSimulatorGoAway(reason: "Shutdown", errorCode: 0, pairPauseMilliseconds: 100)
            try await fixture.simulator.add(APNSSimulatorFault(.farewell(goAway), isImmediate: true))
            let text = try await said
            #expect(text.contains("(last_stream_id=2147483647, error_code=NO_ERROR"))
            #expect(text.contains("(last_stream_id=15, error_code=NO_ERROR"))
            #expect(text.components(separatedBy: ":status: 200").count - 1 == 2)
        }
    }

    @Test func aGoAwayMayHaveAnyLastStreamCodeAndData() async throws {
        try await APNSSimulatorFixture.run { fixture in
            let goAway = APNSSimulatorGoAway(debug: "{", errorCode: 11, last: .behind(1))
            try await fixture.simulator.add(APNSSimulatorFault(.farewell(goAway), count: 1))
            let text = try await fixture.nghttp(["-m3"])
            #expect(text.contains("(last_stream_id=11, error_code=ENHANCE_YOUR_CALM(0x0b), opaque_data(1)=[{])"))
        }
    }

    @Test(
        arguments: [
            (#"{"cut":"reset"}"#, "reset by peer"), (#"{"refuseHandshake":40}"#, "handshake failure"),
            (#"{"dropConnects":true}"#, "curl: ("), (#"{"halfClose":true}"#, "curl: ("),
            (#"{"closeListener":true}"#, "curl: (7)"), (#"{"resetStream":11}"#, "ENHANCE_YOUR_CALM"),
            (#"{"mute":true}"#, "curl: (28)"), (#"{"blackHole":true}"#, "curl: (28)"),
            (#"{"status":200,"body":"unfinished"}"#, "curl: (28)"), (#"{"cut":"fin"}"#, "curl: ("),
        ])
    func aFaultEndsARequestAndIsOverWhenCleared(_ fault: String, _ complaint: String) async throws {
        try await APNSSimulatorFixture.run { fixture in
            #expect(try await fixture.admin("faults", ["-d", fault]).status == 201)
            let answer = try await fixture.push(["-m", "2"])
            #expect(answer.text.contains(complaint), "\(answer.text)")
            #expect(try await fixture.admin("faults", ["-X", "DELETE"]).status == 200)
            // The port is reopened a moment after the request.
            let again = ["--retry", "20", "--retry-connrefused", "--retry-delay", "1"]
            #expect(try await fixture.push(again).status == 200)
        }
    }

    /// A slow service is not unavailable: the request is answered, but late.
    @Test(arguments: [
        #"{"lateSettingsMilliseconds":300}"#, #"{"slowHandshakeMilliseconds":300}"#, #"{"blackHole":true,"for":0.3}"#,
        #"{"shutWindow":true,"for":0.3}"#, #"{"slowReads":{"bytes":40,"everyMilliseconds":10}}"#,
        #"{"trickle":{"bytes":4,"everyMilliseconds":30}}"#, #"{"delayMilliseconds":[300,310]}"#,
    ])
    func aSlowFaultOnlyDelaysTheAnswer(_ fault: String) async throws {
        try await APNSSimulatorFixture.run { fixture in
            #expect(try await fixture.admin("faults", ["-d", fault]).status == 201)
            let began = ContinuousClock.now
            let answer = try await fixture.push(["-m", "20"])
            #expect(answer.status == 200, "\(answer.text)")
            // A fault with a duration begins before curl starts.
            if !fault.contains("for") { #expect(ContinuousClock.now - began > .milliseconds(250)) }
        }
    }

    @Test(
        arguments: [
            (#"{"status":429,"reason":"TooManyRequests","retryAfterSeconds":7}"#, "retry-after: 7"),
            (#"{"status":500,"body":"broken"}"#, #"{"reason":"Unregis"#),
            (#"{"status":410,"reason":"Unregistered","timestamp":"none"}"#, #"{"reason":"Unregistered"}"#),
            (#"{"status":410,"reason":"ExpiredToken","timestampOffsetSeconds":-60}"#, #""timestamp":1"#),
            (#"{"status":500,"body":"huge","bodyBytes":200000}"#, String(repeating: "x", count: 200_000)),
        ])
    func anAnswerMayHaveAnyForm(_ fault: String, _ part: String) async throws {
        try await APNSSimulatorFixture.run { fixture in
            #expect(try await fixture.admin("faults", ["-d", fault]).status == 201)
            let said = try await fixture.push(["-i"])
            let isThere = said.text.contains(part)
            #expect(isThere)
            #expect(said.text.contains("apns-id: "))
        }
    }

    @Test func anAnswerMayOmitTheIdentifierAndTheBody() async throws {
        try await APNSSimulatorFixture.run { fixture in
            let fault = #"{"status":400,"reason":"BadTopic","identifier":false,"body":"none"}"#
            #expect(try await fixture.admin("faults", ["-d", fault]).status == 201)
            let said = try await fixture.push(["-i"])
            #expect(said.status == 400)
            #expect(!said.text.contains("apns-id: "))
            #expect(!said.text.contains("reason"))
        }
    }

    @Test func aLimitThatFallsMayRefuseTheStreamsAboveIt() async throws {
        try await APNSSimulatorFixture.run { fixture in
            try await fixture.simulator.add(APNSSimulatorFault(.delay(milliseconds: 1000)))
            async let said = fixture.nghttp(["-m3"])
            _ = try await fixture.simulator.deliveries(after: 2, wait: .seconds(5))
            try await fixture.simulator.add(APNSSimulatorFault(.condition(.refusingStreamLimit(1))))
            let text = try await said
            #expect(text.components(separatedBy: "(error_code=REFUSED_STREAM(0x07))").count - 1 == 2)
            #expect(text.contains("[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1]"))
            #expect(text.components(separatedBy: ":status: 200").count - 1 == 1)
        }
    }

    @Test func streamsOpenedBeforeTheSettingsAreViolations() async throws {
        try await APNSSimulatorFixture.run { fixture in
            // Delayed, since the SETTINGS would sometimes arrive before nghttp sends its requests.
            try await fixture.simulator.add(APNSSimulatorFault(.connect(.lateSettings(milliseconds: 500))))
            _ = try await fixture.nghttp(["-m3"])
            #expect(try await fixture.simulator.violations() == [.streamsBeforeSettings: 2])
            let journal = try await fixture.admin("journal?limit=100")
            #expect(journal.text.contains(#""event":"opened","authentication":"certificate","streamLimit":1000"#))
            #expect(journal.text.contains(#""violation":"streamsBeforeSettings""#))
            #expect(journal.text.contains(#""event":"request","stream":13,"delivery":1,"status":200,"reason":null"#))
            let statistics = try await fixture.admin("statistics")
            #expect(statistics.text.contains(#""mostStreams":3"#))
            #expect(statistics.text.contains(#""outcomes":[{"status":200,"reason":null,"count":3}]"#))
        }
    }

    @Test func aTokenGrowsOldWithTheClock() async throws {
        try await APNSSimulatorFixture.run { fixture in
            let token = try fixture.providerToken(issuedEpochSeconds: Int64(Date().timeIntervalSince1970))
            let headers = ["-H", "authorization: bearer \(token)", "-H", "apns-topic: \(APNSSimulatorFixture.topic)"]
            #expect(try await fixture.push(headers, identity: nil).status == 200)
            #expect(try await fixture.admin("faults", ["-d", #"{"clockSeconds":3700}"#]).status == 201)
            let old = try await fixture.push(headers, identity: nil)
            #expect(old.status == 403)
            #expect(old.text.contains("ExpiredProviderToken"))
        }
    }

    @Test func aScenarioPlaysByItself() async throws {
        try await APNSSimulatorFixture.run { fixture in
            let scenario = """
                {"seed":1,"steps":[{"at":0,"fault":{"status":500,"reason":"InternalServerError","count":1}},
                {"afterRequests":2,"fault":{"status":503,"reason":"Shutdown","count":1}},
                {"at":3000,"fault":{"cut":true}}]}
                """
            #expect(try await fixture.admin("scenario", ["-d", scenario]).status == 201)
            var statuses: [Int] = []
            for _ in 0..<4 { statuses.append(try await fixture.push().status) }
            #expect(statuses == [500, 200, 503, 200])
            let state = try await fixture.admin("scenario")
            #expect(state.text.contains(#"{"running":true,"done":2,"remaining":1,"#))
            #expect(try await fixture.admin("scenario", ["-X", "DELETE"]).status == 200)
            #expect(try await fixture.admin("scenario").text.contains(#"{"running":false}"#))
            let wrong = try await fixture.admin("scenario", ["-d", #"{"steps":[{}]}"#])
            #expect(wrong.status == 400)
            #expect(wrong.text.contains("needs either at or afterRequests"))
        }
    }

    /// Source: Wallet Orders §4.6
    static let reasons: [(status: Int, reason: String)] = [
        (400, "BadDeviceToken"), (400, "DeviceTokenNotForTopic"), (400, "BadTopic"), (400, "MissingTopic"),
        (400, "TopicDisallowed"), (400, "BadCollapseId"), (400, "BadExpirationDate"), (400, "BadMessageId"),
        (400, "BadPriority"), (400, "InvalidPushType"), (400, "DuplicateHeaders"), (400, "MissingDeviceToken"),
        (400, "PayloadEmpty"), (400, "IdleTimeout"), (403, "BadCertificate"), (403, "BadCertificateEnvironment"),
        (403, "ExpiredProviderToken"), (403, "InvalidProviderToken"), (403, "MissingProviderToken"), (403, "Forbidden"),
        (403, "UnrelatedKeyIdInToken"), (403, "BadEnvironmentKeyInToken"), (404, "BadPath"), (405, "MethodNotAllowed"),
        (410, "Unregistered"), (410, "ExpiredToken"), (413, "PayloadTooLarge"), (429, "TooManyRequests"),
        (429, "TooManyProviderTokenUpdates"), (500, "InternalServerError"), (503, "ServiceUnavailable"),
        (503, "Shutdown"),
    ]

    @Test func everyReasonReachesThePusher() async throws {
        try await APNSSimulatorFixture.run { fixture in
            let notifications = try makeNotifications(Self.reasons.count)
            for (notification, row) in zip(notifications, Self.reasons) {
                let answer = APNSSimulatorAnswer(row.status, row.reason)
                try await fixture.simulator.add(
                    APNSSimulatorFault(
                        .answer(answer, delayMilliseconds: 0), token: notification.deviceToken.rawValue))
            }
            try await fixture.withClient { client in
                let outcomes = await client.send(notifications)
                #expect(outcomes.map(\.status) == Self.reasons.map(\.status))
                #expect(outcomes.map { $0.answer?.reason } == Self.reasons.map(\.reason))
            }
            #expect(try await fixture.simulator.violations() == [:])
        }
    }

    /// Simulator and client check each other: the limit rises and falls while the pusher's client sends.
    @Test func thePusherObeysAChangingStreamLimit() async throws {
        try await APNSSimulatorFixture.run { fixture in
            try await fixture.simulator.run(
                APNSSimulatorScenario(
                    seed: 3,
                    steps: [0, 200, 500, 900, 1_400, 2_000].enumerated().map { index, requests in
                        let limit = [40, 3, 100, 1, 10, 1000][index]
                        return APNSSimulatorScenario.Step(
                            .afterRequests(requests), APNSSimulatorFault(.maxConcurrentStreams(limit)))
                    }))
            try await fixture.withClient { client in
                let outcomes = await client.send(try makeNotifications(3_000))
                #expect(outcomes.allSatisfy { $0.status == 200 })
            }
            #expect(try await fixture.simulator.violations() == [:])
            #expect(try await fixture.simulator.remainingSteps() == 0)
            #expect(try await fixture.simulator.statistics().requests == 3_000)
        }
    }

    @Test func manyDeliveriesAreReadInPages() async throws {
        try await APNSSimulatorFixture.run { fixture in
            try await fixture.withClient { client in
                // As many at a time as a busy machine sends before they expire.
                for first in stride(from: 0, to: 2_500, by: 250) {
                    let outcomes = await client.send(try makeNotifications(250, from: first))
                    #expect(outcomes.allSatisfy { $0.status == 200 })
                }
            }
            var (after, count, pages) = (0, 0, 0)
            repeat {
                let page = try await fixture.admin("deliveries?limit=1000&after=\(after)").text
                let last = try #require(page.firstMatch(of: /"last":(\d+),"dropped":0\}/)).output.1
                count += page.components(separatedBy: "\"sequence\":").count - 1
                after = try #require(Int(last))
                pages += 1
            } while after < 2_500 && pages < 5
            #expect(count == 2_500)
            #expect(pages == 3)
        }
    }
}
