import Foundation
import Kafka
import Model
import TestKit
import Testing

@testable import Packager

/// CloudEvents in records, as libraries and bridges write them.
///
/// Source: CloudEvents Kafka binding 1.0.2 §3; the SDKs for Java, Go, JavaScript and Python
@Suite struct ForeignCloudEventTests {
    private static let attributes = [
        ("ce_specversion", "1.0"), ("ce_id", "e-1"), ("ce_source", "/shop"), ("ce_type", "paid"),
    ]
    private static let structured =
        #"{"specversion": "1.0", "id": "e-1", "source": "/shop", "type": "paid", "data": {"no": "S-1"}}"#

    private static func event(_ headers: [(String, String)], _ value: String?) throws(ChangeFault) -> SourceEvent {
        let record = KafkaRecord(
            topic: "events", partition: 0, offset: 0, timestampMilliseconds: 0, key: nil,
            value: value.map { Array($0.utf8) }, headers: headers.map { KafkaHeader(name: $0.0, text: $0.1) })
        return try SourceEvent(record, format: .cloudevents, schemas: [:])
    }

    private static func reason(_ headers: [(String, String)], _ value: String?) -> String? {
        do throws(ChangeFault) {
            let event = try Self.event(headers, value)
            Issue.record("\(event)")
            return nil
        } catch {
            #expect(error.code == .mapUndecodable)
            return error.reason
        }
    }

    // MARK: the mode

    @Test(arguments: [
        "application/cloudevents+json", "application/cloudevents+json; charset=UTF-8", "Application/CloudEvents+JSON",
        "application/cloudevents", " application/cloudevents+json ;a=b",
    ])
    func theContentTypeDecides(_ type: String) throws {
        for name in ["content-type", "Content-Type"] {
            let repeated = try Self.event([(name, type)] + Self.attributes, Self.structured).event
            #expect(repeated == (try JSON(parsing: Array(Self.structured.utf8))))
        }
    }

    /// A content type that is not that of an event, or none.
    @Test(
        arguments: [[], [("content-type", "application/json")], [("content-type", "text/plain")]]
            as [[(String, String)]])
    func anEventIsFoundWithoutItsContentType(_ headers: [(String, String)]) throws {
        let event = try Self.event(headers, Self.structured).event
        #expect(event.object?["data"] == ["no": "S-1"])
    }

    @Test(
        arguments: [
            [], [("content-type", "application/json")], [("content-type", "application/vnd.shop+json; charset=utf-8")],
            // The SDK for JavaScript has the attribute as a header, too.
            [("ce_datacontenttype", "application/json"), ("content-type", "application/json")],
            [("ce_datacontenttype", "text/json")],
        ] as [[(String, String)]])
    func aBinaryEventHasItsHeadersAndData(_ headers: [(String, String)]) throws {
        // An event in an event is data.
        for data in [#"{"no": "S-1"}"#, Self.structured] {
            let event = try Self.event(Self.attributes + headers, data).event
            var expected: JSONObject = ["specversion": "1.0", "id": "e-1", "source": "/shop", "type": "paid"]
            expected["datacontenttype"] = headers.last.map { .string($0.1) }
            expected["data"] = try JSON(parsing: Array(data.utf8))
            #expect(event == .object(expected))
        }
    }

    /// Source: CloudEvents Kafka binding 1.0.2 §3.2.2: an event without data is a record without a value.
    @Test func aBinaryEventWithoutDataIsNoTombstone() throws {
        for value in [nil, ""] {
            let event = try Self.event(Self.attributes + [("content-type", "text/xml")], value)
            #expect(event.event.object?["id"] == "e-1")
            #expect(event.event.object?["data"] == .null)
            #expect(!event.isDeletion)
        }
        #expect(try Self.event([("content-type", "application/json")], nil).isDeletion)
        #expect(try Self.event([("content-type", "application/cloudevents+json")], nil).isDeletion)
    }

    @Test func aHeaderWithoutAValueIsNoAttribute() throws {
        let record = KafkaRecord(
            topic: "events", partition: 0, offset: 0, timestampMilliseconds: 0, key: nil, value: Array("{}".utf8),
            headers: Self.attributes.map { KafkaHeader(name: $0.0, text: $0.1) }
                + [KafkaHeader(name: "ce_subject", value: nil)])
        let event = try SourceEvent(record, format: .cloudevents, schemas: [:]).event
        #expect(event.object?["subject"] == nil)
        #expect(event.object?["id"] == "e-1")
    }

    // MARK: what is refused, with the cure

    @Test(arguments: [
        ("ce_source", #""/shop""#), ("ce_time", #""2026-01-05T16:02:11Z""#), ("ce_id", #""e-1""#),
        ("content-type", #""application/json""#), ("content-type", #""application/cloudevents+json""#),
    ])
    func headersInTheQuotationMarksOfJSONAreRefused(_ name: String, _ value: String) {
        let headers = Self.attributes.filter { $0.0 != name } + [(name, value)]
        let reason = Self.reason(headers, "{}")
        #expect(reason?.hasPrefix("header \(name) is in the quotation marks of JSON: ") == true, "\(reason ?? "")")
        #expect(reason?.contains("encodeStrings") == true)
    }

    @Test func anExtensionMayHaveQuotationMarks() throws {
        let event = try Self.event(Self.attributes + [("ce_etag", #""v1""#)], "{}").event
        #expect(event.object?["etag"] == #""v1""#)
    }

    @Test(arguments: [
        // cloudevents-spring, Pub/Sub, and whatever copies headers of HTTP
        ("ce-specversion", "that of HTTP, in Kafka it begins with ce_"), ("Ce-Id", "that of HTTP"),
        // Event Hubs, between AMQP and Kafka
        ("cloudEvents:id", "that of AMQP"), ("cloudEvents_id", "that of AMQP"),
        ("ce_id", "header ce_specversion is missing beside ce_id"),
    ])
    func headersOfAnotherBindingAreRefused(_ name: String, _ reason: String) throws {
        for value in [#"{"no": "S-1"}"#, "<no>", ""] {
            let found = Self.reason([(name, "1.0")], value)
            #expect(found?.contains(reason) == true, "\(found ?? "")")
        }
        // The event itself is whole.
        #expect(try Self.event([(name, "1.0")], Self.structured).event.object?["id"] == "e-1")
    }

    @Test(
        arguments: [
            [("content-type", "application/cloudevents-batch+json")],
            [("content-type", "application/cloudevents-batch+json; charset=utf-8")] + attributes, [],
        ] as [[(String, String)]])
    func aBatchIsRefused(_ headers: [(String, String)]) {
        let reason = Self.reason(headers, "[\(Self.structured)]")
        #expect(reason?.hasPrefix("the value is a batch of CloudEvents") == true, "\(reason ?? "")")
    }

    @Test(
        arguments: [
            (
                [("content-type", "application/cloudevents+avro")], "x",
                #"header content-type is "application/cloudevents+avro""#
            ),
            (
                [("content-type", "text/xml")] + attributes, "<a/>",
                #"header content-type is "text/xml": a program gets JSON"#
            ),
            ([("ce_datacontenttype", "text/plain")] + attributes, "a", #"header content-type is "text/plain""#),
            ([("content-type", "application/cloudevents+json")], "{}", "the value is no CloudEvent"),
            ([], "{}", "the value is no CloudEvent: neither $.specversion nor a header ce_specversion is there"),
            ([], "x", "the value is not JSON"), (attributes, "x", "the value is not JSON"),
        ] as [([(String, String)], String, String)])
    func whatIsNoEventIsRefused(_ headers: [(String, String)], _ value: String, _ reason: String) {
        let found = Self.reason(headers, value)
        #expect(found?.hasPrefix(reason) == true, "\(found ?? "")")
    }

    // MARK: data_base64

    @Test(
        arguments: [
            (nil, #"{"no": "S-1"}"#, ["no": "S-1"]), ("application/json", #"{"no": "S-1"}"#, ["no": "S-1"]),
            ("application/json; charset=utf-8", "7", 7), ("application/vnd.shop+json", "null", .null),
            ("text/xml", "<no>S-1</no>", "<no>S-1</no>"),
        ] as [(String?, String, JSON)])
    func dataInBase64IsDecoded(_ type: String?, _ data: String, _ expected: JSON) throws {
        var event: JSONObject = ["specversion": "1.0", "id": "e-1"]
        event["datacontenttype"] = type.map { .string($0) }
        event["data_base64"] = .string(Data(data.utf8).base64EncodedString())
        let found = try Self.event([], JSON.object(event).text).event.object
        #expect(found?["data"] == expected)
        #expect(found?["data_base64"] == nil)
    }

    @Test func dataThatIsNoTextStaysInBase64() throws {
        let event = #"{"specversion": "1.0", "datacontenttype": "image/png", "data_base64": "iVBORw=="}"#
        let found = try Self.event([], event).event
        #expect(found == (try JSON(parsing: Array(event.utf8))))
    }

    @Test(arguments: [
        (#""data_base64": "?""#, "$.data_base64 is not base64"),
        (#""data_base64": "eA==""#, "the data in $.data_base64 is not JSON"),
        (#""data_base64": "e30=", "data": {}"#, "$.data and $.data_base64 are both there"),
    ])
    func dataInBase64ThatCannotBeReadIsRefused(_ members: String, _ reason: String) {
        let found = Self.reason([], #"{"specversion": "1.0", \#(members)}"#)
        #expect(found?.hasPrefix(reason) == true, "\(found ?? "")")
    }
}
