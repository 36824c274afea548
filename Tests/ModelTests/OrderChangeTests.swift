import TestKit
import Testing

@testable import Model

/// A record as Kafka delivers it, with one defect at a time.
private struct Record {
    var key: [UInt8]? = Array("order.com.example.shop/42".utf8)
    var value: [UInt8]?
    var headers: [(name: String, value: [UInt8]?)] = []

    /// Returns a record in structured mode.
    static func structured(_ type: String = "waybill.order.patched", data: JSON? = ["status": "open"]) -> Record {
        Record(value: self.event(type, data: data).serialized, headers: [self.structuredHeader])
    }

    static func structured(_ event: JSON) -> Record {
        Record(value: event.serialized, headers: [self.structuredHeader])
    }

    static func event(_ type: String = "waybill.order.patched", data: JSON? = ["status": "open"]) -> JSON {
        let event: JSON = [
            "specversion": "1.0", "type": .string(type), "source": "/oms", "id": "1",
            "subject": "order.com.example.shop/42", "partitionkey": "x",
        ]
        return event.setting(data, "data")
    }

    static let structuredHeader: (name: String, value: [UInt8]?) = (
        "content-type", Array("application/cloudevents+json; charset=UTF-8".utf8)
    )

    /// Returns a record in binary mode.
    static func binary(_ type: String = "waybill.order.patched", value: [UInt8]? = Array(#"{"a":1}"#.utf8)) -> Record {
        let attributes = [
            ("ce_specversion", "1.0"), ("ce_type", type), ("ce_source", "/oms"), ("ce_id", "a%20b"),
            ("ce_subject", "order.com.example.shop/42"), ("ce_sequence", "0017"), ("content-type", "application/json"),
        ]
        return Record(value: value, headers: attributes.map { (name: $0.0, value: Array($0.1.utf8)) })
    }

    func setting(_ name: String, _ value: String?) -> Record {
        var copy = self
        copy.headers.removeAll { $0.name == name }
        if let value { copy.headers.append((name: name, value: Array(value.utf8))) }
        return copy
    }

    func decode() throws(ChangeFault) -> OrderChange {
        try OrderChange.decode(key: self.key, value: self.value, headers: self.headers)
    }

    var fault: ChangeFault? {
        do throws(ChangeFault) {
            _ = try self.decode()
            return nil
        } catch {
            return error
        }
    }
}

@Suite struct OrderChangeTests {
    /// Faults are the same as well.
    @Test(arguments: [
        Record.event(), Record.event("waybill.order.removed", data: nil), Record.event("waybill.order.lost"),
        Record.event().setting("17", "sequence").setting(true, "silent").setting("status,payment", "owns"),
        Record.event("waybill.order.merged", data: ["status": "open", "owns": ["status"]]),
        Record.event().setting("43", "subject"), Record.event(data: "text"), Record.event().setting(nil, "source"),
        Record.event().setting("yesterday", "time"),
    ])
    func anEventThatWasReadBeforeIsTheSameChange(_ event: JSON) {
        let record = Record.structured(event)
        func result(_ decode: () throws(ChangeFault) -> OrderChange) -> Result<OrderChange, ChangeFault> {
            do { return .success(try decode()) } catch { return .failure(error) }
        }
        let expected = result(record.decode)
        let found = result { () throws(ChangeFault) in
            try OrderChange.decode(
                key: record.key ?? [], event: event.object ?? [:], value: record.value ?? [], headers: record.headers)
        }
        #expect(found == expected)
    }

    @Test func aStructuredEventIsRead() throws {
        let change = try Record.structured().decode()
        #expect(change.key.description == "order.com.example.shop/42")
        #expect(change.source == "/oms")
        #expect(change.id == "1")
        #expect(change.sequence == nil)
        #expect(change.kind == .patched(["status": "open"]))
    }

    @Test func aBinaryEventIsReadAndItsHeadersAreNotPercentDecoded() throws {
        let change = try Record.binary().decode()
        #expect(change.id == "a%20b")
        #expect(change.sequence == "0017")
        #expect(change.kind == .patched(["a": 1]))
    }

    @Test func eachEventTypeDecodesToItsKind() throws {
        let fulfillment: JSON = ["fulfillmentIdentifier": "f1", "status": "open"]
        #expect(
            try Record.structured("waybill.fulfillment.updated", data: fulfillment).decode().kind
                == .fulfillmentUpdated(identifier: "f1", try #require(fulfillment.object)))
        #expect(
            try Record.structured("waybill.return.updated", data: ["returnIdentifier": "r1"]).decode().kind
                == .returnUpdated(identifier: "r1", ["returnIdentifier": "r1"]))
        #expect(
            try Record.structured("waybill.order.replaced", data: ["a": 1]).decode().kind
                == .replaced(OrderDocument(members: ["a": 1])))
    }

    @Test func aRemovalHasNoData() throws {
        for data: JSON? in [nil, .null, [:]] {
            #expect(try Record.structured("waybill.order.removed", data: data).decode().kind == .removed)
        }
        for value: [UInt8]? in [nil, [], Array("null".utf8), Array("{}".utf8)] {
            #expect(try Record.binary("waybill.order.removed", value: value).decode().kind == .removed)
        }
        #expect(Record.structured("waybill.order.removed", data: ["a": 1]).fault?.code == .invalidChange)
    }

    @Test func theContentTypeDecidesTheMode() throws {
        // A structured event may repeat its attributes in headers (Kafka binding §3.3.3).
        var both = Record.structured()
        both.headers += Record.binary().headers.filter { $0.name != "content-type" }
        #expect(try both.decode().id == "1")
        var bare = Record.structured()
        bare.headers = []
        #expect(try bare.decode().id == "1")
        bare.headers = [("Content-Type", Array("Application/CloudEvents+JSON".utf8))]
        #expect(try bare.decode().id == "1")
        bare.headers = [("content-type", Array("application/cloudevents+avro".utf8))]
        #expect(bare.fault?.code == .invalidEvent)
        bare.headers = [("content-type", Array("application/cloudevents-batch+json".utf8))]
        #expect(bare.fault?.code == .invalidEvent)
        bare.headers = [("content-type", Array("text/plain".utf8))]
        #expect(bare.fault?.code == .invalidEvent)
        #expect(try Record.binary().setting("content-type", nil).decode().id == "a%20b")
        #expect(try Record.binary().setting("content-type", "application/merge-patch+json").decode().id == "a%20b")
        #expect(Record.binary().setting("content-type", "application/xml").fault?.code == .invalidEvent)
    }

    @Test func aValueThatIsTooLargeOrMissingIsRefused() {
        var record = Record.structured()
        record.value = [UInt8](repeating: 0x20, count: OrderChange.valueLimit + 1)
        #expect(record.fault?.code == .valueTooLarge)
        // A list of more values than a change may have, as a record and as a program's result.
        let list = JSON.array(.init(repeating: 1, count: JSON.entryLimit))
        record = .structured(data: ["lineItems": list])
        #expect(record.fault?.code == .valueTooLarge)
        #expect(record.fault?.reason.hasPrefix("the value has more than 131072 values") == true)
        #expect(Record.binary(value: list.serialized).fault?.code == .valueTooLarge)
        let event: JSONObject = ["data": ["lineItems": list]]
        let fault = #expect(throws: ChangeFault.self) {
            try OrderChange.decode(key: record.key ?? [], event: event, value: event.serialized, headers: [])
        }
        #expect(fault?.code == .valueTooLarge)
        record = .structured()
        record.value = nil
        #expect(record.fault?.code == .missingValue)
        record.value = []
        #expect(record.fault?.code == .missingValue)
        #expect(Record.binary(value: nil).fault?.code == .missingValue)
        #expect(Record.binary(value: []).fault?.code == .missingValue)
        #expect(Record.binary(value: Array("null".utf8)).fault?.code == .invalidChange)
    }

    @Test func aKeyThatNamesNoOrderIsRefused() {
        var record = Record.structured()
        for (key, code): ([UInt8]?, ChangeFault.Code) in [
            (nil, .invalidKey), ([], .invalidKey), (Array("shop".utf8), .invalidKey), (Array("a.b/".utf8), .invalidKey),
            (Array("a.b/1/2".utf8), .invalidKey), ([0xFF], .invalidUTF8),
        ] {
            record.key = key
            #expect(record.fault?.code == code)
        }
    }

    @Test func invalidUTF8AndInvalidJSONHaveDifferentCodes() {
        var record = Record.structured()
        record.value = [0xFF, 0xFE]
        #expect(record.fault?.code == .invalidUTF8)
        record.value = Array(#"{"id":""#.utf8) + [0xC3, 0x28] + Array("\"}".utf8)
        #expect(record.fault?.code == .invalidUTF8)
        for text in ["{", "{}x", "{\"a\":1,\"a\":2}", "nul", String(repeating: "[", count: 64)] {
            record.value = Array(text.utf8)
            #expect(record.fault?.code == .invalidJSON)
        }
        record.value = Array("[]".utf8)
        #expect(record.fault?.code == .invalidEvent)
        var binary = Record.binary()
        binary.headers.append((name: "ce_time", value: [0xFF]))
        #expect(binary.fault?.code == .invalidUTF8)
    }

    @Test func everyTruncationIsRefused() throws {
        let bytes = try #require(Record.structured().value)
        var record = Record.structured()
        for length in 1..<bytes.count {
            record.value = Array(bytes[..<length])
            #expect(record.fault?.code == .invalidJSON)
        }
    }

    @Test(arguments: ["specversion", "type", "source", "id", "subject"])
    func aRequiredAttributeMustBeThere(_ name: String) throws {
        for value: JSON? in [nil, .null, "", 1, ["x": 1]] {
            let fault = try #require(Record.structured(Record.event().setting(value, name)).fault)
            #expect(fault.code == .invalidEvent)
            #expect(fault.reason.contains("$.\(name) "))
        }
        let fault = try #require(Record.binary().setting("ce_\(name)", nil).setting("ce_x", "1").fault)
        // Without ce_specversion the record is not a binary event at all.
        #expect(fault.code == .invalidEvent)
        #expect(name == "specversion" || fault.reason.contains("header ce_\(name) "))
    }

    /// The most likely first mistakes of producers.
    @Test func aPlainOrderOrDashedHeaderIsRefusedWithAHint() throws {
        let plain = try #require(Record.structured(try Examples.order(1)).fault)
        #expect(plain.code == .invalidEvent, "\(plain)")
        #expect(plain.reason.contains("must be a CloudEvent"), "\(plain)")
        #expect(!plain.reason.contains("underscore"))
        var dashed = Record.binary()
        dashed.headers = dashed.headers.map { ($0.name.replacing("ce_", with: "ce-"), $0.value) }
        #expect(dashed.fault?.reason.contains("ce_… with an underscore") == true, "\(dashed.fault.debugDescription)")
    }

    @Test func aWrongAttributeIsRefused() {
        for (name, value): (String, JSON) in [
            ("specversion", "0.3"), ("specversion", 1), ("time", "yesterday"), ("time", 5), ("sequence", "1a"),
            ("sequence", ""), ("sequence", 7), ("sequence", .string(String(repeating: "1", count: 129))),
            ("datacontenttype", "text/xml"), ("datacontenttype", 4), ("data_base64", "e30="),
            ("source", .string(String(repeating: "s", count: 513))),
            ("id", .string(String(repeating: "i", count: 1025))),
        ] {
            #expect(Record.structured(Record.event().setting(value, name)).fault?.code == .invalidEvent, "\(name)")
        }
        var twice = Record.binary()
        twice.headers.append((name: "ce_id", value: Array("2".utf8)))
        #expect(twice.fault?.code == .invalidEvent)
    }

    @Test func anUnknownTypeIsRefusedWithThoseThatAreKnown() throws {
        let fault = try #require(Record.structured("waybill.order.refunded").fault)
        #expect(fault.code == .unknownType)
        #expect(fault.reason.contains("waybill.order.refunded"))
        #expect(fault.reason.contains("waybill.order.patched"))
    }

    @Test func keyAndSubjectMustAgree() throws {
        let event = Record.event().setting("order.com.example.shop/43", "subject")
        let fault = try #require(Record.structured(event).fault)
        #expect(fault.code == .subjectMismatch)
        #expect(fault.reason.contains("order.com.example.shop/43"))
        #expect(fault.reason.contains("order.com.example.shop/42"))
    }

    @Test func dataOfAWrongShapeIsRefusedWithItsPath() {
        for (type, data, reason): (String, JSON?, String) in [
            (
                "waybill.fulfillment.updated", ["fulfillmentIdentifier": 7],
                "$.data.fulfillmentIdentifier must be a string, it is a number"
            ),
            ("waybill.fulfillment.updated", ["status": "open"], "$.data.fulfillmentIdentifier is missing"),
            ("waybill.return.updated", ["returnIdentifier": ""], "$.data.returnIdentifier must not be empty"),
            ("waybill.order.replaced", "x", "$.data must be an object, it is a string"),
            ("waybill.order.patched", [1], "$.data must be an object, it is an array"),
            ("waybill.order.replaced", nil, "$.data is missing"),
            ("waybill.order.replaced", .null, "$.data is missing"),
        ] {
            let fault = Record.structured(type, data: data).fault
            #expect(fault?.code == .invalidChange)
            #expect(fault?.reason.hasPrefix(reason) == true)
        }
    }

    @Test func aReasonIsBounded() throws {
        let long = String(repeating: "e\u{301}\u{301}", count: 100_000)
        let event = Record.event().setting(.string(long), "type")
        #expect(try #require(Record.structured(event).fault).reason.utf8.count <= ChangeFault.reasonLimit)
        #expect(ChangeFault(code: .invalidJSON, reason: long).reason.utf8.count <= ChangeFault.reasonLimit)
    }
}
