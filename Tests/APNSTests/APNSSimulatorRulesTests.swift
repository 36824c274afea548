import Foundation
import Testing

@testable import TestKit

@Suite struct APNSSimulatorRulesTests {
    static let token = String(repeating: "a1", count: 32)

    static func request(_ change: (inout APNSSimulatorRequest) -> Void = { _ in }) -> APNSSimulatorRequest {
        var request = APNSSimulatorRequest()
        request.method = "POST"
        request.path = "/3/device/\(Self.token)"
        request.topic = "order.com.example.shop"
        request.pushType = "background"
        request.priority = "5"
        request.body = Array("{}".utf8)
        change(&request)
        return request
    }

    static func verdict(
        _ request: APNSSimulatorRequest, certificateTopic: String? = nil, topics: Set<String> = []
    ) -> String? {
        let rules = APNSSimulatorRules(topics: topics)
        let refusal =
            rules.refusal(ofShapeOf: request)
            ?? rules.refusal(ofHeadersOf: request, certificateTopic: certificateTopic)
            ?? rules.refusal(ofBody: request.body)
        return refusal.map { "\($0.status) \($0.reason ?? "")" }
    }

    @Test func aRequestThatKeepsTheRulesIsTaken() {
        #expect(Self.verdict(Self.request()) == nil)
        #expect(Self.verdict(Self.request { $0.priority = "1" }) == nil)
        #expect(Self.verdict(Self.request { ($0.pushType, $0.priority) = ("alert", "10") }) == nil)
        #expect(Self.verdict(Self.request { ($0.pushType, $0.priority) = (nil, nil) }) == nil)
        #expect(Self.verdict(Self.request { $0.identifier = "0a1b2c3d-0000-4000-8000-00000000000f" }) == nil)
        #expect(Self.verdict(Self.request { $0.expiration = "0" }) == nil)
        #expect(Self.verdict(Self.request { $0.collapseIdentifier = String(repeating: "c", count: 64) }) == nil)
        #expect(Self.verdict(Self.request { $0.path = "/3/device/A0a0A0a0" }) == nil)
    }

    @Test(arguments: [
        ("405 MethodNotAllowed", { @Sendable (r: inout APNSSimulatorRequest) in r.method = "GET" }),
        ("404 BadPath", { @Sendable (r: inout APNSSimulatorRequest) in r.path = "/2/device/aa" }),
        ("404 BadPath", { @Sendable (r: inout APNSSimulatorRequest) in r.path += "/x" }),
        ("400 MissingDeviceToken", { @Sendable (r: inout APNSSimulatorRequest) in r.path = "/3/device/" }),
        ("400 BadDeviceToken", { @Sendable (r: inout APNSSimulatorRequest) in r.path = "/3/device/abcdef0" }),
        ("400 BadDeviceToken", { @Sendable (r: inout APNSSimulatorRequest) in r.path += "g" }),
        (
            "400 BadDeviceToken",
            { @Sendable (r: inout APNSSimulatorRequest) in r.path += String(repeating: "0", count: 137) }
        ),
        ("400 DuplicateHeaders", { @Sendable (r: inout APNSSimulatorRequest) in r.hasDuplicates = true }),
        ("400 MissingTopic", { @Sendable (r: inout APNSSimulatorRequest) in r.topic = nil }),
        ("400 BadTopic", { @Sendable (r: inout APNSSimulatorRequest) in r.topic = "" }),
        ("400 BadTopic", { @Sendable (r: inout APNSSimulatorRequest) in r.topic = "order com" }),
        ("400 InvalidPushType", { @Sendable (r: inout APNSSimulatorRequest) in r.pushType = "Background" }),
        ("400 BadPriority", { @Sendable (r: inout APNSSimulatorRequest) in r.priority = "10" }),
        ("400 BadPriority", { @Sendable (r: inout APNSSimulatorRequest) in r.priority = nil }),
        ("400 BadPriority", { @Sendable (r: inout APNSSimulatorRequest) in r.priority = "7" }),
        ("400 BadExpirationDate", { @Sendable (r: inout APNSSimulatorRequest) in r.expiration = "-1" }),
        ("400 BadExpirationDate", { @Sendable (r: inout APNSSimulatorRequest) in r.expiration = "" }),
        (
            "400 BadExpirationDate",
            { @Sendable (r: inout APNSSimulatorRequest) in r.expiration = "99999999999999999999" }
        ),
        ("400 BadExpirationDate", { @Sendable (r: inout APNSSimulatorRequest) in r.expiration = "1700000000000" }),
        ("400 BadMessageId", { @Sendable (r: inout APNSSimulatorRequest) in r.identifier = "1" }),
        (
            "400 BadMessageId",
            { @Sendable (r: inout APNSSimulatorRequest) in r.identifier = "0A1B2C3D-0000-4000-8000-00000000000F" }
        ),
        ("400 BadCollapseId", { @Sendable (r: inout APNSSimulatorRequest) in r.collapseIdentifier = "" }),
        (
            "400 BadCollapseId",
            { @Sendable (r: inout APNSSimulatorRequest) in
                r.collapseIdentifier = String(repeating: "ü", count: 33)
            }
        ),
        ("400 PayloadEmpty", { @Sendable (r: inout APNSSimulatorRequest) in r.body = [] }),
        ("400 BadPayload", { @Sendable (r: inout APNSSimulatorRequest) in r.body = Array("[]".utf8) }),
        ("400 BadPayload", { @Sendable (r: inout APNSSimulatorRequest) in r.body = Array("{".utf8) }),
        (
            "413 PayloadTooLarge",
            { @Sendable (r: inout APNSSimulatorRequest) in r.body = Array(repeating: 0x20, count: 4097) }
        ),
    ])
    func aViolatedRuleIsNamed(_ verdict: String, _ change: @Sendable (inout APNSSimulatorRequest) -> Void) {
        #expect(Self.verdict(Self.request(change)) == verdict)
    }

    @Test func aCertificateIsAcceptedForItsOwnTopicsOnly() {
        #expect(Self.verdict(Self.request(), certificateTopic: "order.com.example.shop") == nil)
        #expect(Self.verdict(Self.request { $0.topic = nil }, certificateTopic: "order.com.example.shop") == nil)
        #expect(Self.verdict(Self.request(), certificateTopic: "order.com.example.other") == "400 TopicDisallowed")
        #expect(Self.verdict(Self.request(), topics: ["order.com.example.other"]) == "400 TopicDisallowed")
        #expect(Self.verdict(Self.request(), topics: ["order.com.example.shop"]) == nil)
    }

    @Test func aDuplicateAPNsHeaderIsDetected() {
        var request = APNSSimulatorRequest()
        request.take(name: "apns-topic", value: "a")
        request.take(name: "x-other", value: "a")
        request.take(name: "x-other", value: "a")
        #expect(!request.hasDuplicates)
        request.take(name: "apns-topic", value: "a")
        #expect(request.hasDuplicates)
    }

    @Test func anIdentifierReadsBackAsItWasWritten() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<100 {
            let identifier = APNSSimulatorIdentifier.random(using: &random)
            #expect(APNSSimulatorIdentifier(canonical: identifier.description) == identifier)
            #expect(UUID(uuidString: identifier.description) != nil)
        }
    }

    @Test func anAnswerBodyHasTheReasonAndTheTimestamp() {
        #expect(APNSSimulatorAnswer.accepted.body == "")
        #expect(APNSSimulatorAnswer(400, "BadTopic").body == #"{"reason":"BadTopic"}"#)
        let gone = APNSSimulatorAnswer(410, "Unregistered", timestampEpochMilliseconds: 7)
        #expect(gone.body == #"{"reason":"Unregistered","timestamp":7}"#)
        #expect(APNSSimulatorAnswer(500, "a\"\\\u{1}").body == #"{"reason":"a\"\\\u0001"}"#)
    }

    @Test func theJournalKeepsOnlyTheLatestEntries() {
        var ring = APNSSimulatorRing<UInt64>(limit: 3)
        #expect(ring.elements(after: 0).elements.isEmpty)
        for count in 1...8 {
            ring.append { $0 }
            #expect(ring.last == UInt64(count))
        }
        #expect(ring.elements(after: 0).elements == [6, 7, 8])
        #expect(ring.elements(after: 7).elements == [8])
        #expect(ring.elements(after: 0, limit: 2).last == 7)
        #expect(ring.elements(after: 0, limit: 0).last == 0)
        #expect(ring.elements(after: 8).last == 8)
        #expect(ring.elements(after: 99).elements.isEmpty)
        #expect(ring.dropped == 5)
        ring.removeAll()
        #expect(ring.elements(after: 0).last == 8)
        ring.append { $0 }
        #expect(ring.elements(after: 0).elements == [9])
    }
}
