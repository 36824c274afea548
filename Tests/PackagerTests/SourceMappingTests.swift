import Kafka
import Model
import Operations
import TestKit
import Testing

@testable import Packager

/// The outcome of a source's record.
@Suite struct SourceMappingTests {
    private static let plain = "function map(e) return {{order = e.id, data = {orderNumber = e.number}}} end"

    @Test func aChangeHasTheIdentityOfItsRecord() throws {
        let mapping = try SourceFixture.map(
            """
            function map(e, record)
                return {{order = e.id, data = {orderNumber = record.key .. record.topic}},
                        {order = "7", type = "fulfillment.updated", data = {fulfillmentIdentifier = "f"}, id = "own",
                         sequence = 12, time = "2026-01-02T00:00:00Z", source = "/s/other", silent = true}}
            end
            """, value: #"{"id": 820982911946154508}"#, extra: #""owns": ["orderNumber", "orderProvider"]"#)
        #expect(
            mapping.events == [
                [
                    "specversion": "1.0", "type": "waybill.order.merged", "source": "/s", "id": "c1/events/3/17/1",
                    "subject": "order.com.example.shop/820982911946154508", "time": "2026-01-01T00:00:00.123Z",
                    "owns": "orderNumber,orderProvider", "data": ["orderNumber": "kevents"],
                ],
                [
                    "specversion": "1.0", "type": "waybill.fulfillment.updated", "source": "/s/other", "id": "own",
                    "subject": "order.com.example.shop/7", "time": "2026-01-02T00:00:00Z", "sequence": "12",
                    "silent": true, "data": ["fulfillmentIdentifier": "f"],
                ],
            ])
    }

    @Test func aTextCutInTheMiddleOfACharacterDoesNotLoseTheOrder() throws {
        let mapping = try SourceFixture.map(Self.plain, value: #"{"id": "1", "number": "Sticker set \ud83d"}"#)
        #expect(mapping.events.map { $0.object?["data"] } == [["orderNumber": "Sticker set \u{FFFD}"]])
    }

    /// For the author, beside the test that it may be right in.
    @Test func aTestNotesWordsThatATableLacks() async throws {
        let fixture = try SourceFixture()
        let program = """
            local states = waybill.words("states", {NEU = "open", ALT = false})
            function map(e) return {{order = "1", data = {status = states[e.state]}}} end
            """
        try fixture.write("a", topics: ["events"], program)
        let notes: [String: [String]] = ["NEU": [], "ALT": [], "WEG": [#"unknown value: states has no "WEG""#]]
        for (word, notes) in notes {
            let content: JSON = ["record": ["value": ["state": .string(word)]], "changes": []]
            let result = await SourceTest(name: "", content: content).result(try fixture.load("a"), NearMapper())
            #expect(result.notes == notes)
        }
    }

    @Test func whatIsMendedIsCounted() throws {
        let value = #"{"id": "1", "number": "\ud83d \ud83d", "items": [1], "items": [1]}"#
        let mapping = try SourceFixture.map(Self.plain, value: value)
        #expect(mapping.events.count == 1)
        #expect(mapping.foreign.faults.map { "\($0.count) \($0.kind)" } == ["2 lone-surrogate", "1 repeated-member"])
        let registry = MetricsRegistry()
        IngestMetrics(factory: registry).mapped(mapping, "s", took: .zero)
        #expect(registry.text.contains(#"waybill_ingest_mended_total{source="s",kind="lone-surrogate"} 2"#))
        var tally = DryRunTally()
        for _ in 0..<2 {
            tally.add(
                mapping,
                of: KafkaRecord(topic: "t", partition: 0, offset: 0, timestampMilliseconds: 0, key: nil, value: nil))
        }
        #expect(mapping.notes.first == "mended: 2 halves of characters became U+FFFD")
        #expect(tally.text.contains("\n4 halves of characters became U+FFFD\n2 members were left out"))
    }

    @Test func aMemberWithTwoValuesIsRefusedUnlessTheLastCounts() throws {
        let value = #"{"id": "1", "number": "a", "number": "b"}"#
        let fault = try #require(try SourceFixture.map(Self.plain, value: value).fault)
        #expect(fault.code == .mapUndecodable)
        #expect(fault.reason.contains(#""number" occurs twice"#))
        #expect(fault.reason.hasSuffix(#"give source.json "repeated": "last""#))
        for format in ["json", "cloudevents", "debezium"] {
            let program = """
                function map(e)
                    local row = e.after or e
                    return {{order = row.id, data = {orderNumber = row.number}}}
                end
                """
            let whole = format == "debezium" ? #"{"op": "c", "after": \#(value)}"# : value
            let event = format == "cloudevents" ? whole.replacing("{", with: #"{"specversion": "1.0", "#) : whole
            let mapping = try SourceFixture.map(program, value: event, format: format, extra: #""repeated": "last""#)
            #expect(mapping.events.first?.object?["data"] == ["orderNumber": "b"], "\(format)")
            #expect(mapping.foreign.repeatedMembers == 1, "\(format)")
        }
        #expect(throws: SourceError.self) {
            try SourceFixture.map(Self.plain, value: value, extra: #""repeated": "first""#)
        }
    }

    @Test func changesAreComparedWithAnOrder() throws {
        let mapping = try SourceFixture.map(
            """
            function map(e)
                return {{order = "1", data = {status = "completed", fulfillments = {
                            {fulfillmentIdentifier = "f", fulfillmentType = "shipping", status = "delivered"}}}},
                        {order = "2", type = "removed"}, {order = "3", data = {orderNumber = "1"}}}
            end
            """, value: "{}")
        guard case .mapped(let changes) = mapping.outcome else {
            Issue.record("\(mapping.outcome)")
            return
        }
        var order: JSONObject = [
            "createdAt": "2026-01-01T00:00:00Z", "orderManagementURL": "https://example.com/1", "orderNumber": "1",
            "status": "open",
            "fulfillments": [
                ["fulfillmentIdentifier": "f", "fulfillmentType": "shipping", "status": "shipped", "carrier": "UPS"]
            ],
        ]
        func lines() throws -> [String] {
            try OrderComparison(document: OrderDocument(members: order)).lines(
                changes.map(\.change), nowEpochSeconds: 1_767_225_600)
        }
        let found = try lines()
        #expect(
            found == [
                "order.com.example.shop/1:", #"  $.fulfillments[0].status: "shipped" → "delivered""#,
                #"  $.status: "open" → "completed""#, "order.com.example.shop/2:",
                "  $: \(JSON.object(order).text) → nothing", "order.com.example.shop/3:", "  no difference",
            ])
        order["status"] = "lost"
        #expect(throws: ChangeFault.self) { try lines() }
    }

    @Test(arguments: [
        ("function map(e) return {{data = {}}} end", "result[1].order is missing"),
        ("function map(e) return {{order = {}, data = {}}} end", "result[1].order: must be a text or an integer"),
        ("function map(e) return {{order = 'urn:x:1', data = {}}} end", #"result[1].order: "urn:x:1" is not an order"#),
        ("function map(e) return {{order = '1', type = 'moved'}} end", #"result[1].type: "moved" must be merged"#),
        ("function map(e) return {{order = '1', date = {}}} end", "result[1].date is not a known member"),
        ("function map(e) return {order = '1'} end", "map must return nothing or a list of changes, not an object"),
        ("function map(e) return {1} end", "result[1]: must be an object"),
        (
            "function map(e) return {{order = '1', data = {payment = {total = {amount = 'x', currency = 'EUR'}}}}} end",
            "source s: result[1]: the order would not be valid: $.payment.total.amount must be a decimal number"
        ),
        (
            "function map(e) return {{order = '1', data = {lineItem = {}}}} end",
            "source s: result[1]: the order would not be valid: $.lineItem is not a member of an order"
        ),
        (
            "function map(e) return {{order = '1', time = 'now', data = {}}} end",
            "source s: result[1]: $.time must be a date-time"
        ),
        (
            "function map(e) return {{order = '1', type = 'removed', data = {a = 1}}} end",
            "source s: result[1]: $.data must be absent"
        ),
    ])
    func aChangeThatThePackagerWouldRefuseIsRefused(_ program: String, _ reason: String) throws {
        let fault = try #require(try SourceFixture.map(program, value: "{}").fault)
        #expect(fault.code == .mapInvalidChange)
        #expect(fault.reason.hasPrefix(reason), "\(fault.reason)")
    }

    @Test(arguments: [
        ("function map(e) return e.a.b end", ChangeFault.Code.mapFailed, "source s: map.lua:1: attempt to index"),
        ("function map(e) while true do end end", .mapLimit, "source s: too many instructions"),
        ("function map(e) return {{order = 1, data = {a = 0.5}}} end", .mapInexact, "source s: result[1].data.a is"),
        (
            "function map(e) local t = {} for i = 1, 17 do t[i] = {order = i} end return t end", .mapLimit,
            "map returned 17 changes"
        ),
    ])
    func aProgramThatFailsMakesADeadLetter(_ program: String, _ code: ChangeFault.Code, _ reason: String) throws {
        let fault = try #require(try SourceFixture.map(program, value: "{}").fault)
        #expect(fault.code == code)
        #expect(fault.reason.hasPrefix(reason), "\(fault.reason)")
    }

    @Test(arguments: [
        ("not JSON", "the value is not JSON"), ("\u{0}\u{0}\u{0}\u{0}\u{1}x", "the value is framed with a schema's id"),
        ("Obj\u{1}", "the value is an Avro object container file"), ("", "the value is not JSON"),
        // The index of Protobuf's message, and a value of Avro that begins like JSON.
        ("\u{0}\u{0}\u{0}\u{0}\u{1}\u{0}\u{A}\u{1}x", "the value is framed with a schema's id, and no JSON follows"),
        ("\u{0}\u{0}\u{0}\u{0}\u{1}{x", "the value is framed with a schema's id, and no JSON follows"),
        ("\u{3}\u{0}0123456789abcdef{}", "the value is framed by AWS Glue Schema Registry"),
    ])
    func aValueOfAnotherFormatIsNamed(_ value: String, _ reason: String) throws {
        let fault = try #require(try SourceFixture.map(Self.plain, value: value).fault)
        #expect(fault.code == .mapUndecodable)
        #expect(fault.reason.hasPrefix(reason), "\(fault.reason)")
    }

    /// Confluent's serializer of JSON Schema begins with a zero and the schema's identifier.
    @Test func theIdentifierOfAJSONSchemaIsReadPast() throws {
        let framing = "\u{0}\u{0}\u{0}\u{0}\u{7}"
        let plain = try SourceFixture.map(Self.plain, value: framing + #" {"id": "1", "number": "2"} "#)
        #expect(plain.events.map { $0.object?["data"] } == [["orderNumber": "2"]])
        let row = "function map(e) return {{order = e.after.id, data = {}}} end"
        let debezium = try SourceFixture.map(
            row, value: framing + #"{"op": "c", "after": {"id": 1}}"#, format: "debezium")
        #expect(debezium.events.count == 1)
        let event = "function map(e) return {{order = e.subject, data = {}}} end"
        let structured = try SourceFixture.map(
            event, value: framing + #"{"specversion": "1.0", "subject": "1"}"#, format: "cloudevents")
        #expect(structured.events.count == 1)
        #expect(
            try SourceFixture.map(Self.plain, value: framing + "{]}").fault?.reason.hasPrefix("the value is not JSON")
                == true)
    }

    /// Nothing is parsed that is too large, and nothing becomes much larger.
    @Test(arguments: ["json", "cloudevents", "debezium"]) func aValueThatIsTooLargeIsADeadLetter(format: String) throws
    {
        let large = String(repeating: " ", count: OrderChange.valueLimit + 1)
        let fault = try #require(try SourceFixture.map(Self.plain, value: large, format: format).fault)
        #expect(fault.code == .mapUndecodable)
        #expect(fault.reason == "the value has 1048577 bytes, an event has at most 1048576")
        let list = "[\(repeatElement("1", count: JSON.entryLimit).joined(separator: ","))]"
        let many = try #require(try SourceFixture.map(Self.plain, value: list, format: format).fault)
        #expect(many.code == .mapUndecodable)
        #expect(many.reason.hasPrefix("the value has more than 131072 values"), "\(many.reason)")
    }

    /// Eight times as many take eight times as long, where the square would be 64 times.
    @Test(arguments: ["json", "cloudevents"]) func manyHeadersAreReadInProportion(format: String) throws {
        let growth = try ProcessorTime.growth(from: 3000) { count in
            KafkaRecord(
                topic: "events", partition: 0, offset: 0, timestampMilliseconds: 0, key: nil, value: Array("{}".utf8),
                headers: [KafkaHeader(name: "ce_specversion", text: "1.0")]
                    + (0..<count).reversed().map { KafkaHeader(name: "ce_\(100_000 + $0)", text: "") })
        } work: { record in
            let facts = SourceEvent.facts(of: record).object?["headers"]?.object
            #expect(facts?.members.count == record.headers.count)
            var event = try SourceEvent(record, format: #require(Source.Format(rawValue: format)), schemas: [:])
            try event.read()
            #expect(event.event.object?.members.count == (format == "json" ? 0 : record.headers.count + 1))
        }
        #expect(growth < 20)
    }

    /// Half of the bytes are the schema of an array's elements, the others its elements.
    @Test func manyRowsOfDebeziumAreReadInProportion() throws {
        let growth = try ProcessorTime.growth(from: 250) { count -> JSON in
            let fields = JSON.array((0..<count).map { ["field": .string("\($0)")] })
            let array: JSON = ["field": "x", "items": ["fields": fields]]
            return [
                "schema": ["fields": [array]],
                "payload": ["op": "c", "x": .array(.init(repeating: ["1": 1], count: 4 * count))],
            ]
        } work: {
            let event = try DebeziumEvent.event($0).event
            #expect(event.object?["x"]?.array?.last == ["1": 1])
        }
        #expect(growth < 20)
    }

    /// Only an error needs the path of a value.
    @Test func aLongNameAboveManyMembersIsReadInProportion() throws {
        let growth = try ProcessorTime.growth(from: 1000) { count -> JSON in
            let members = (0..<count).map { ("\($0)", JSON.integer(1)) }
            return .object(
                JSONObject([("op", "c"), (String(repeating: "n", count: 20 * count), .object(JSONObject(members)))]))
        } work: {
            let event = try DebeziumEvent.event($0).event
            #expect(event.object?.members.count == 2)
        }
        #expect(growth < 20)
    }

    @Test func whatIsNotMappedIsIgnoredOrADeadLetter() throws {
        let nothing = "function map(e) end"
        #expect(try SourceFixture.map(nothing, value: "{}").isIgnored)
        let refused = try SourceFixture.map(nothing, value: "{}", extra: #""unmapped": "dead-letter""#)
        #expect(refused.fault?.code == .mapFailed)
        #expect(try SourceFixture.map(Self.plain, value: nil).isIgnored)
        let deleted = "function map(e) if e == null then return {{order = '1', type = 'removed'}} end end"
        #expect(try SourceFixture.map(deleted, value: nil, extra: #""deletions": true"#).events.count == 1)
        let start = #""start": "2026-01-01T00:00:01Z""#
        #expect(try SourceFixture.map(Self.plain, value: #"{"id": 1}"#, extra: start).isIgnored)
        let before = #""silentBefore": "2026-01-01T00:00:01Z""#
        let silent = try SourceFixture.map(Self.plain, value: #"{"id": 1}"#, extra: before).events.first
        #expect(silent?.object?["silent"] == true)
    }

    @Test func aBrandChoosesTheOrderType() throws {
        let fixture = try SourceFixture()
        try fixture.put(
            "s/source.json",
            """
            {"topics": ["^events"], "format": "json", "name": "/s",
             "orderType": {"blue": "order.com.example.blue", "red": "order.com.example.red"}}
            """)
        try fixture.put(
            "s/map.lua", "function map(e) return {{order = 1, brand = e.brand, data = {}}} end")
        let source = try fixture.load("s")
        func map(_ value: String) throws -> SourceMapping {
            let record = KafkaRecord(
                topic: "events-2", partition: 0, offset: 0, timestampMilliseconds: -1, key: nil,
                value: Array(value.utf8))
            return try SourceMapping(record, source, nowEpochSeconds: 0)
        }
        #expect(try map(#"{"brand": "red"}"#).events.first?.object?["subject"] == "order.com.example.red/1")
        #expect(try map(#"{"brand": "red"}"#).events.first?.object?["time"] == nil)
        #expect(try map(#"{"brand": "green"}"#).fault?.reason.hasPrefix("result[1].brand:") == true)
    }

    @Test func aCloudEventIsTheSameInBothModes() throws {
        let program = """
            function map(e) return {{order = e.subject, id = e.id, data = {orderNumber = e.data.number}}} end
            """
        let structured = try SourceFixture.map(
            program,
            value: #"{"specversion": "1.0", "id": "i", "subject": "7", "type": "t", "data": {"number": "n"}}"#,
            format: "cloudevents")
        let headers = [("ce_specversion", "1.0"), ("ce_id", "i"), ("ce_subject", "7"), ("ce_type", "t")]
        let binary = try SourceFixture.map(
            program, value: #"{"number": "n"}"#, format: "cloudevents",
            headers: headers.map { KafkaHeader(name: $0.0, text: $0.1) })
        #expect(structured.events == binary.events)
        #expect(structured.events.count == 1)
        let plain = try SourceFixture.map(program, value: "{}", format: "cloudevents")
        #expect(plain.fault?.code == .mapUndecodable)
    }

    @Test func aChangeHasTheTraceOfItsRecord() throws {
        let parents = (1...2).map { "00-4bf92f3577b34da6a3ce929d0e0e4736-000000000000000\($0)-01" }
        func trace(
            _ value: String, format: String = "json", headers: [(String, String)] = []
        ) throws -> [TraceContext?] {
            let program = "function map() return {{order = 'a', type = 'removed'}, {order = 'b', type = 'removed'}} end"
            let mapping = try SourceFixture.map(
                program, value: value, format: format, headers: headers.map { KafkaHeader(name: $0.0, text: $0.1) })
            guard case .mapped(let changes) = mapping.outcome else { return [] }
            #expect(
                changes.map(\.change.trace)
                    == changes.map { change in
                        TraceContext(headers: change.message.headers.map { ($0.name, $0.value) })
                    })
            return changes.map(\.change.trace)
        }
        let header = [("traceparent", parents[0]), ("tracestate", "a=1")]
        let first = TraceContext(traceparent: parents[0], tracestate: "a=1")
        let second = TraceContext(traceparent: parents[1])
        #expect(try trace("{}", headers: header) == [first, first])
        #expect(try trace("{}", headers: [("traceparent", "00-1")]) == [nil, nil])
        #expect(try trace(#"{"traceparent": "\#(parents[1])"}"#) == [nil, nil], "no CloudEvent")
        let event = #"{"specversion": "1.0", "traceparent": "\#(parents[1])"}"#
        #expect(try trace(event, format: "cloudevents", headers: header) == [second, second], "its own is first")
        let binary = [("ce_specversion", "1.0"), ("ce_traceparent", parents[1])]
        #expect(try trace("{}", format: "cloudevents", headers: binary + header) == [second, second])
    }

    @Test func debeziumsValuesAreConvertedByTheirSchema() throws {
        let value = """
            {"schema": {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": [
              {"field": "id", "type": "int64"},
              {"field": "price", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
               "parameters": {"scale": "2"}},
              {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
              {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
              {"field": "big", "type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
              {"field": "text", "type": "string"}]}]},
             "payload": {"op": "OP", "before": null, "after": {"id": 1, "price": "TbwA", "day": 20152,
              "at": 1741190531000000, "big": {"scale": 1, "value": "/w=="}, "text": "__debezium_unavailable_value"}}}
            """
        let program = """
            function map(e)
                local a = e.after
                local all = table.concat({a.price, a.day, a.at, a.big, tostring(a.text == nil), e.op}, " ")
                return {{order = a.id, data = {orderNumber = all}}}
            end
            """
        func event(_ operation: String) throws -> JSON? {
            let text = value.replacing("\"OP\"", with: "\"\(operation)\"")
            return try SourceFixture.map(program, value: text, format: "debezium").events.first
        }
        let changed = try event("u")
        #expect(
            changed?.object?["data"]?.object?["orderNumber"]
                == "50944.00 2025-03-05 2025-03-05T16:02:11Z -0.1 true u")
        #expect(changed?.object?["silent"] == nil)
        #expect(try event("r")?.object?["silent"] == true)
        #expect(try event("d") == nil)
        #expect(try SourceFixture.map(program, value: "{}", format: "debezium").fault?.code == .mapUndecodable)
        for (wrong, place) in [("TbwA", "$.after.price"), ("/w==", "$.after.big")] {
            let text = value.replacing("\"OP\"", with: "\"u\"").replacing(wrong, with: "?")
            let fault = try SourceFixture.map(program, value: text, format: "debezium").fault
            #expect(fault?.reason.hasSuffix("\(place) is not a decimal of its schema") == true)
        }
    }

    /// The least and the greatest number, which databases have for infinity, end no worker.
    @Test(arguments: [
        (Int64.min, "0000-01-01T00:00:00Z"), (-1, "1969-12-31T23:59:59.999Z"), (.max, "9999-12-31T23:59:59Z"),
    ])
    func everyMomentOfDebeziumIsConverted(_ number: Int64, _ text: String) throws {
        let event = try DebeziumEvent.event(
            [
                "schema": ["fields": [["field": "at", "name": "io.debezium.time.Timestamp"]]],
                "payload": ["op": "c", "at": .integer(number)],
            ])
        #expect(event.event.object?["at"] == .string(text))
    }

    @Test(
        arguments: [
            ([0x4D, 0xBC, 0x00], 2, "50944.00"), ([0xFF], 1, "-0.1"), ([0x00], 2, "0.00"), ([0x80], 0, "-128"),
            ([0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], 3, "2361183241434822606.847"),
            ([0xFF, 0x00], 2, "-2.56"), ([0x01], 5, "0.00001"), ([0x01], -3, "1000"), ([0xFF], -1, "-10"),
            ([0x00], -3, "0"), ([UInt8](repeating: 0xFF, count: 300), 1, "-0.1"),
        ] as [([UInt8], Int, String)])
    func decimalsAreExact(_ bytes: [UInt8], _ scale: Int, _ text: String) {
        #expect(LogicalType.digits(of: bytes, scale: scale) == text)
    }

    @Test func aRecordIsProcessedUnderItsSourceAndKey() {
        for key in [nil, [], [0], Array("a/b".utf8)] as [[UInt8]?] {
            let made = SourceKey.key(of: key, source: "s", topic: "t", partition: 1)
            #expect(made.starts(with: "s/".utf8))
            #expect(SourceKey.original(made) == key)
        }
    }
}
