import Kafka
import Model
import Testing

@testable import Devkit

@Suite struct CloudEventTests {
    static func event(_ type: CloudEvent.ChangeType, _ data: JSON?) -> CloudEvent {
        CloudEvent(
            id: "id 1/é", source: "/shop", type: type.rawValue, subject: "order.com.example.shop/No_5",
            time: "2025-03-05T16:02:11Z", sequence: "0007", data: data)
    }

    @Test(arguments: [CloudEvent.Mode.structured, .binary], CloudEvent.ChangeType.allCases)
    func aWrittenEventDecodesToTheSameChange(_ mode: CloudEvent.Mode, _ type: CloudEvent.ChangeType) throws {
        let data: JSONObject = ["fulfillmentIdentifier": "f", "returnIdentifier": "r", "status": "open \"é\"\n"]
        let hasNone = type == .removed || type == .announced
        let event = Self.event(type, hasNone ? nil : .object(data))
        let change = try event.message(topic: "changes", mode: mode).decoded()
        #expect(change.key.description == "order.com.example.shop/No_5")
        #expect(change.source == "/shop")
        #expect(change.id == "id 1/é")
        #expect(change.sequence == "0007")
        let expected: OrderChange.Kind =
            switch type {
            case .replaced: .replaced(OrderDocument(members: data))
            case .merged: .merged(data, owns: nil)
            case .patched: .patched(data)
            case .announced: .announced(touch: false)
            case .fulfillmentUpdated: .fulfillmentUpdated(identifier: "f", data)
            case .returnUpdated: .returnUpdated(identifier: "r", data)
            case .removed: .removed
            }
        #expect(change.kind == expected)
    }

    @Test(arguments: [CloudEvent.Mode.structured, .binary])
    func extensionsOfWaybillAreRead(_ mode: CloudEvent.Mode) throws {
        var event = Self.event(.merged, ["status": "open"])
        event.isSilent = true
        event.owns = "status, fulfillments.status"
        let change = try event.message(topic: "changes", mode: mode).decoded()
        let owns = try OwnedPaths(["fulfillments.status", "status"], path: "owns")
        #expect(change.isSilent)
        #expect(change.kind == .merged(["status": "open"], owns: owns))
        #expect(change.epochMilliseconds == 1_741_190_531_000)
    }

    @Test func structuredModeIsOneObjectAndBinaryModeHeaders() {
        let event = Self.event(.patched, ["status": "open"])
        let structured = event.message(topic: "t", mode: .structured)
        #expect(structured.headers.map(\.name) == ["content-type"])
        #expect(structured.header("content-type") == "application/cloudevents+json")
        let binary = event.message(topic: "t", mode: .binary)
        #expect(binary.value == Array(#"{"status":"open"}"#.utf8))
        #expect(binary.header("content-type") == "application/json")
        for name in ["specversion", "id", "source", "type", "subject", "time", "sequence"] {
            #expect(structured.attribute(name) == binary.header("ce_\(name)"))
        }
        #expect(structured.key == binary.key)
        #expect(structured.key == Array(event.subject.utf8))
    }

    @Test func absentAttributesAndDataAreNotWritten() throws {
        var event = Self.event(.removed, nil)
        event.time = nil
        event.sequence = nil
        let binary = event.message(topic: "t", mode: .binary)
        #expect(binary.value == nil)
        #expect(binary.header("ce_time") == nil)
        #expect(binary.header("ce_sequence") == nil)
        let object = try #require(try JSON(parsing: event.structuredValue).object)
        #expect(object.members.map(\.name) == ["id", "source", "specversion", "subject", "type"])
    }
}
