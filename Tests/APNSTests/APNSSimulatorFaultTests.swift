import Testing

@testable import TestKit

@Suite struct APNSSimulatorFaultTests {
    static let late = APNSSimulatorFault.Effect.delay(milliseconds: 1)

    static func hit(_ faults: inout APNSSimulatorFaults, _ token: String, _ connection: Int) -> APNSSimulatorFault
        .Effect?
    {
        var random = SeededGenerator(seed: 1)
        return faults.hit(token: token, connection: connection, using: &random)?.effect
    }

    @Test func theMostSpecificAndThenOldestFaultApplies() {
        var faults = APNSSimulatorFaults()
        let add = { (effect: APNSSimulatorFault.Effect, token: String?, connection: Int?) in
            _ = faults.add(APNSSimulatorFault(effect, token: token, connection: connection, count: 1))
        }
        add(.delay(milliseconds: 6), nil, nil)
        add(.delay(milliseconds: 5), nil, 1)
        add(.delay(milliseconds: 3), "AB", nil)
        add(.delay(milliseconds: 4), "ab", nil)
        add(.delay(milliseconds: 1), "ab", 1)
        add(.delay(milliseconds: 9), "ab", 2)
        let hits = (0..<7).map { _ in Self.hit(&faults, "aB", 1) }
        #expect(hits == [1, 3, 4, 5, 6].map { .delay(milliseconds: $0) } + [nil, nil])
        #expect(faults.count == 1)
        #expect(Self.hit(&faults, "AB", 2) == .delay(milliseconds: 9))
        #expect(faults.count == 0)
    }

    @Test func aFaultWithoutACountAppliesUntilCleared() {
        var faults = APNSSimulatorFaults()
        _ = faults.add(APNSSimulatorFault(.cut))
        for _ in 0..<5 { #expect(Self.hit(&faults, "aa", 1) == .cut) }
        faults.removeAll()
        #expect(Self.hit(&faults, "aa", 1) == nil)
    }

    @Test func aConnectionsOwnStreamLimitOverridesTheGeneralOne() {
        var faults = APNSSimulatorFaults()
        _ = faults.add(APNSSimulatorFault(.maxConcurrentStreams(3), connection: 7))
        _ = faults.add(APNSSimulatorFault(.maxConcurrentStreams(5)))
        #expect(Self.hit(&faults, "aa", 7) == nil)
        #expect(faults.conditions(connection: 7).streamLimit == 3)
        #expect(faults.conditions(connection: 8).streamLimit == 5)
    }

    @Test func tooManyFaultsAreRefused() {
        var faults = APNSSimulatorFaults()
        for number in 0..<APNSSimulatorFaults.limit {
            _ = faults.add(APNSSimulatorFault(Self.late, token: String(number)))
        }
        #expect(faults.add(APNSSimulatorFault(Self.late)) == nil)
    }

    @Test(arguments: [
        (#"{"status":410,"reason":"Unregistered"}"#, "answer 410 Unregistered 77 late 0"),
        (
            #"{"status":410,"reason":"Unregistered","timestampEpochMilliseconds":5,"delayMilliseconds":9}"#,
            "answer 410 Unregistered 5 late 9"
        ),
        (#"{"delayMilliseconds":3}"#, "delay 3"),
        (#"{"goaway":{"reason":"Shutdown"}}"#, "goaway Shutdown true"),
        (#"{"goaway":{"reason":"Shutdown","processed":false},"now":true}"#, "goaway Shutdown false"),
        (#"{"cut":true,"token":"AB","connection":2,"count":3}"#, "cut"),
        (#"{"silence":true}"#, "silence"),
        (#"{"maxConcurrentStreams":1,"connection":2}"#, "streams 1"),
    ])
    func aFaultIsParsedFromJSON(_ json: String, _ meaning: String) throws {
        let fault = try APNSSimulatorFault(json: Array(json.utf8), nowEpochMilliseconds: 77)
        let read =
            switch fault.effect {
            case .answer(let answer, let delay):
                "answer \(answer.status) \(answer.reason ?? "") \(answer.timestampEpochMilliseconds ?? 0) late \(delay)"
            case .delay(let milliseconds): "delay \(milliseconds)"
            case .goAway(let reason, let processed): "goaway \(reason) \(processed)"
            case .cut: "cut"
            case .silence: "silence"
            case .maxConcurrentStreams(let limit): "streams \(limit)"
            default: "something else"
            }
        #expect(read == meaning)
        #expect(fault.isImmediate == json.contains("now"))
        guard json.contains("AB") else { return }
        #expect(fault.token == "ab")
        #expect(fault.connection == 2)
        #expect(fault.count == 3)
    }

    @Test(arguments: [
        ("", "reading a fault"), ("[]", "a fault is a JSON object"), ("{}", "a fault needs one of"),
        (#"{"cut":true,"colour":1}"#, "$.colour is not a member"),
        (#"{"cut":true,"silence":true}"#, "not cut and silence"),
        (#"{"cut":false}"#, "$.cut must be true"), (#"{"cut":true,"count":0}"#, "$.count must be"),
        (#"{"cut":true,"token":7}"#, "$.token must be"), (#"{"status":99}"#, "$.status must be"),
        (#"{"status":4e2}"#, "$.status must be"), (#"{"cut":true,"reason":"x"}"#, "$.reason goes with status"),
        (#"{"cut":true,"delayMilliseconds":1}"#, "$.delayMilliseconds goes"),
        (#"{"delayMilliseconds":-1}"#, "$.delayMilliseconds must be"),
        (#"{"goaway":true}"#, "$.goaway must be"), (#"{"goaway":{"code":1}}"#, "$.goaway.code"),
        (#"{"status":500,"now":true}"#, "$.now goes with"), (#"{"cut":true,"now":true,"count":1}"#, "with $.now"),
        (#"{"maxConcurrentStreams":1,"count":1}"#, "holds until cleared"),
        (#"{"maxConcurrentStreams":"1"}"#, "$.maxConcurrentStreams must be"),
    ])
    func anInvalidFaultIsRefusedWithAReason(_ json: String, _ sentence: String) {
        #expect {
            try APNSSimulatorFault(json: Array(json.utf8), nowEpochMilliseconds: 0)
        } throws: { error in
            (error as? APNSSimulatorFaultError)?.message.contains(sentence) ?? false
        }
    }

    @Test(arguments: [
        ("GET", "/deliveries?after=7&wait=0.25&limit=3", 200), ("GET", "/deliveries", 200),
        ("DELETE", "/deliveries", 200), ("GET", "/faults", 200), ("DELETE", "/faults", 200),
        ("GET", "/connections", 200), ("POST", "/faults", 400), ("GET", "/deliveries?since=1", 400),
        ("GET", "/deliveries?after=-1", 400), ("GET", "/deliveries?wait=nan", 400), ("GET", "/deliveries?limit=0", 400),
        ("GET", "/faults?x", 400), ("PUT", "/faults", 405), ("POST", "/connections", 405), ("GET", "/", 404),
    ])
    func anAdminRequestIsUnderstoodOrRefused(_ method: String, _ uri: String, _ status: Int) {
        var refused = 200
        do {
            let command = try APNSSimulatorAdminCommand(
                method: method, uri: uri, body: [], nowEpochMilliseconds: 0)
            if uri.contains("limit") {
                #expect(command == .deliveries(after: 7, waitMilliseconds: 250, limit: 3))
            }
        } catch { refused = error.status }
        #expect(refused == status)
    }
}
