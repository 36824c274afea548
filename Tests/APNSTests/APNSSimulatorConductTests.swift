import Model
import NIOCore
import Testing

@testable import TestKit

/// The simulator's records of client conduct, and its timing, without a socket.
@Suite struct APNSSimulatorConductTests {
    @Test func aStreamLimitAppliesOnceTheClientAcknowledgesIt() {
        var conduct = APNSSimulatorConduct()
        conduct.announced(limit: 2)
        #expect(conduct.opened(beside: 0) == nil)
        #expect(conduct.opened(beside: 1) == .streamsBeforeSettings)
        conduct.acknowledged()
        #expect(conduct.opened(beside: 1) == nil)
        #expect(conduct.opened(beside: 2) == .streamLimitExceeded)
        conduct.announced(limit: 1)
        #expect(conduct.opened(beside: 1) == nil, "the new limit may be on its way")
        conduct.acknowledged()
        #expect(conduct.opened(beside: 1) == .streamLimitExceeded)
        conduct.acknowledged()
        #expect(conduct.acknowledgedLimit == 1, "an answer to nothing changes nothing")
    }

    @Test func noStreamIsOpenedOnceGoAwayWasRead() {
        var conduct = APNSSimulatorConduct()
        conduct.announced(limit: 10)
        conduct.acknowledged()
        #expect(conduct.opened(beside: 0) == nil)
        conduct.hasReadGoAway()
        #expect(conduct.opened(beside: 0) == .streamAfterGoAway)
    }

    @Test func elevenPingsInTenSecondsAreAFlood() {
        var conduct = APNSSimulatorConduct()
        let slow = (0..<100).map { conduct.pinged(atMilliseconds: Int64($0) * 1000) }
        #expect(slow.allSatisfy { $0 == nil })
        let verdicts = (0..<11).map { conduct.pinged(atMilliseconds: 200_000 + $0) }
        #expect(verdicts.dropLast().allSatisfy { $0 == nil })
        #expect(verdicts.last == .pingFlood)
    }

    @Test func elevenClosedConnectionsInAMinuteAreRapidReconnects() {
        var reconnects = APNSSimulatorReconnects()
        for _ in 0..<10 { reconnects.closed(atMilliseconds: 1000) }
        #expect(reconnects.opened(atMilliseconds: 1000) == nil)
        reconnects.closed(atMilliseconds: 2000)
        #expect(reconnects.opened(atMilliseconds: 2000) == .rapidReconnects)
        #expect(reconnects.opened(atMilliseconds: 61_000) == nil)
    }

    @Test func lateAnswersAreOrderedByTimeAndThenByStream() {
        var late = APNSSimulatorLateAnswers()
        var random = SeededGenerator(seed: 7)
        var expected: [(time: Int64, stream: Int)] = []
        for stream in 0..<1000 {
            let time = Int64.random(in: 0..<50, using: &random)
            late.add(
                .accepted, APNSSimulatorIdentifier(high: 0, low: 0), connection: 1, stream: stream,
                at: .uptimeNanoseconds(UInt64(time)))
            expected.append((time, stream))
        }
        var taken: [Int] = []
        while let entry = late.take(due: .uptimeNanoseconds(49)) { taken.append(entry.stream) }
        #expect(taken == expected.sorted { $0 < $1 }.map(\.stream))
        #expect(late.next == nil)
    }

    @Test func anAnswerIsNotGivenBeforeItsTime() {
        var late = APNSSimulatorLateAnswers()
        let identifier = APNSSimulatorIdentifier(high: 0, low: 0)
        late.add(.accepted, identifier, connection: 1, stream: 1, at: .uptimeNanoseconds(10))
        let early = late.take(due: .uptimeNanoseconds(9))
        let due = late.take(due: .uptimeNanoseconds(10))
        #expect(early == nil)
        #expect(due != nil)
    }

    @Test func theSameSeedHitsTheSameRequests() {
        func hits(seed: UInt64) -> [Bool] {
            var faults = APNSSimulatorFaults()
            _ = faults.add(APNSSimulatorFault(.cut, probability: 0.3))
            var random = SeededGenerator(seed: seed)
            return (0..<1000).map { _ in faults.hit(token: "aa", connection: 1, using: &random) != nil }
        }
        let first = hits(seed: 1)
        #expect(first == hits(seed: 1))
        #expect(first != hits(seed: 2))
        #expect((200...400).contains(first.count { $0 }))
    }

    @Test func aConditionAffectsItsConnectionsUntilItIsRemoved() throws {
        var faults = APNSSimulatorFaults()
        let added = [
            faults.add(APNSSimulatorFault(.condition(.mute), isImmediate: true), connections: [2]),
            faults.add(APNSSimulatorFault(.condition(.blackHole), connection: 3)),
        ]
        let mute = try #require(added[0])
        let hole = try #require(added[1])
        _ = faults.add(APNSSimulatorFault(.condition(.refusingStreamLimit(5))))
        var random = SeededGenerator(seed: 1)
        let hit = faults.hit(token: "aa", connection: 2, using: &random)
        #expect(hit == nil)
        #expect(faults.conditions(connection: 2).isMute)
        #expect(!faults.conditions(connection: 2).isBlackHole)
        #expect(faults.conditions(connection: 3).isBlackHole)
        #expect(faults.conditions(connection: 4).refusesOpenStreams)
        let removed = [faults.remove(mute), faults.remove(mute), faults.remove(hole)].map { $0 != nil }
        #expect(removed == [true, false, true])
        #expect(faults.conditions(connection: 2) == faults.conditions(connection: 4))
        #expect(faults.count == 1)
    }

    @Test func stepsRunAtTheirTimeOrAfterTheirRequestCount() {
        func step(_ time: APNSSimulatorScenario.Time, _ limit: Int) -> APNSSimulatorScenario.Step {
            APNSSimulatorScenario.Step(time, APNSSimulatorFault(.maxConcurrentStreams(limit)))
        }
        let scenario = APNSSimulatorScenario(steps: [
            step(.at(milliseconds: 200), 3), step(.at(milliseconds: 100), 1), step(.afterRequests(10), 4),
            step(.at(milliseconds: 100), 2),
        ])
        var script = APNSSimulatorScript(scenario, nowMilliseconds: 1000, requests: 50)
        func take(_ now: Int64, _ requests: UInt64) -> [Int?] {
            script.take(nowMilliseconds: now, requests: requests).map { step in
                if case .maxConcurrentStreams(let limit) = step.fault.effect { limit } else { nil }
            }
        }
        #expect(take(1099, 59) == [])
        #expect(take(1100, 59) == [1, 2])
        #expect(take(1199, 60) == [4])
        #expect(script.nextRequests == nil)
        #expect(script.nextMilliseconds == 1200)
        #expect(take(5000, 60) == [3])
        #expect(script.remaining == 0)
        #expect(script.done == 4)
    }

    @Test func aScenarioIsReadFromJSON() throws {
        let json = """
            {"seed":7,"steps":[{"at":1.5,"for":2,"fault":{"blackHole":true,"connection":"busiest"}},
            {"afterRequests":100,"fault":{"status":503,"reason":"Shutdown","count":3,"probability":0.5}}]}
            """
        let scenario = try APNSSimulatorScenario(json: Array(json.utf8), nowEpochMilliseconds: 0)
        let hole = APNSSimulatorFault(.condition(.blackHole), choice: .busiest, lifetimeMilliseconds: 2000)
        let shutdown = APNSSimulatorFault(
            .answer(APNSSimulatorAnswer(503, "Shutdown"), delayMilliseconds: 0), count: 3, probability: 0.5)
        #expect(
            scenario
                == APNSSimulatorScenario(
                    seed: 7,
                    steps: [
                        APNSSimulatorScenario.Step(.at(milliseconds: 1500), hole),
                        APNSSimulatorScenario.Step(.afterRequests(100), shutdown),
                    ]))
    }

    @Test(arguments: [
        ("[]", "a scenario is a JSON object"), ("{}", "$.steps must be an array"),
        (#"{"steps":[],"sead":1}"#, "$.sead is not a member of a scenario"),
        (#"{"steps":[7]}"#, "$.steps[0] must be a JSON object"),
        (#"{"steps":[{"fault":{"cut":true}}]}"#, "$.steps[0] needs either at or afterRequests"),
        (#"{"steps":[{"at":1,"afterRequests":1,"fault":{"cut":true}}]}"#, "needs either at or afterRequests"),
        (#"{"steps":[{"at":-1,"fault":{"cut":true}}]}"#, "$.steps[0].at must be a number from 0"),
        (#"{"steps":[{"at":1}]}"#, "$.steps[0].fault must be a JSON object"),
        (#"{"steps":[{"at":1,"fault":{"cat":true}}]}"#, "$.steps[0].fault.cat is not a member of a fault"),
        (#"{"steps":[{"at":1,"fault":{"cut":true,"silence":true}}]}"#, "$.steps[0].fault: a fault is one thing"),
    ])
    func anInvalidScenarioIsRefusedWithAReason(_ json: String, _ sentence: String) {
        #expect {
            try APNSSimulatorScenario(json: Array(json.utf8), nowEpochMilliseconds: 0)
        } throws: { error in
            (error as? APNSSimulatorError)?.description.contains(sentence) ?? false
        }
    }

    /// Every fault that can be set is encoded again in the same form.
    @Test(arguments: [
        #"{"delayMilliseconds":[5,9]}"#, #"{"cut":"reset"}"#, #"{"halfClose":true}"#, #"{"mute":true}"#,
        #"{"blackHole":true}"#, #"{"resetStream":7}"#, #"{"maxConcurrentStreams":4,"refuseOpen":true}"#,
        #"{"slowReads":{"bytes":10,"everyMilliseconds":20}}"#, #"{"shutWindow":true}"#,
        #"{"trickle":{"bytes":1,"everyMilliseconds":2}}"#, #"{"lateSettingsMilliseconds":5}"#,
        #"{"refuseHandshake":40}"#, #"{"slowHandshakeMilliseconds":6}"#, #"{"dropConnects":true}"#,
        #"{"closeListener":true}"#, #"{"reason":"TooManyRequests","retryAfterSeconds":3,"status":429}"#,
        #"{"reason":"Unregistered","status":410,"timestampOffsetSeconds":-60}"#,
        #"{"body":"broken","status":500}"#, #"{"body":"huge","bodyBytes":70000,"status":500}"#,
        #"{"body":"page","bodyBytes":150,"identifier":false,"status":404}"#,
        #"{"identifier":false,"status":200}"#, #"{"body":"unfinished","status":200}"#,
        #"{"goaway":{"errorCode":7,"processed":true,"reason":"x","stays":false}}"#,
        #"{"goaway":{"behind":3,"errorCode":0,"pairMilliseconds":50,"stays":true}}"#,
    ])
    func aFaultIsListedWithTheJSONThatSetIt(_ json: String) throws {
        var faults = APNSSimulatorFaults()
        _ = faults.add(try APNSSimulatorFault(json: Array(json.utf8), nowEpochMilliseconds: 0))
        let shown = try #require(faults.all.first).json
        #expect(shown == (try JSON(parsing: Array((#"{"fault":1,"# + json.dropFirst()).utf8))))
    }

    @Test(arguments: [
        (#"{"cut":"rst"}"#, "$.cut must be true"), (#"{"cut":true,"probability":2}"#, "$.probability must be"),
        (#"{"cut":true,"for":-1}"#, "$.for must be"), (#"{"cut":true,"connection":"fastest"}"#, "$.connection must be"),
        (#"{"delayMilliseconds":[9,5]}"#, "two whole numbers"), (#"{"slowReads":true}"#, "$.slowReads must be a JSON"),
        (#"{"trickle":{"bytes":0}}"#, "$.trickle.bytes must be"), (#"{"resetStream":"x"}"#, "$.resetStream must be"),
        (#"{"dropConnects":true,"token":"aa"}"#, "no token"), (#"{"closeListener":true,"count":1}"#, "are for all"),
        (#"{"status":410,"timestamp":"old"}"#, "$.timestamp must be none"),
        (#"{"status":500,"body":"x"}"#, "$.body must"),
        (#"{"cut":true,"refuseOpen":true}"#, "$.refuseOpen goes with"), (#"{"clockSeconds":1,"now":true}"#, "$.now"),
    ])
    func anInvalidFaultOptionIsRefusedWithAReason(_ json: String, _ sentence: String) {
        #expect {
            try APNSSimulatorFault(json: Array(json.utf8), nowEpochMilliseconds: 0)
        } throws: { error in
            (error as? APNSSimulatorFaultError)?.message.contains(sentence) ?? false
        }
    }
}
