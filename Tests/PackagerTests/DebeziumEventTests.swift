import Model
import Operations
import TestKit
import Testing

@testable import Packager

/// Debezium's records, as its connectors write them.
///
/// Source: Debezium 3.4, connectors for PostgreSQL, MySQL, Oracle, SQL Server, MongoDB; Kafka Connect, `JsonConverter`
@Suite struct DebeziumEventTests {
    private static func json(_ text: String) throws -> JSON { try JSON(parsing: Array(text.utf8)) }

    /// Returns the columns of a row with one value `x`, whose schema this is.
    private static func row(
        _ value: String, schema: String? = nil, unavailable: UnavailableValue = .standard
    ) throws -> JSONObject {
        let envelope = #"{"op": "u", "before": null, "after": {"id": 1, "x": \#(value)}}"#
        let after = #"{"field": "after", "type": "struct", "fields": [\#(schema ?? "{}")]}"#
        let text =
            schema == nil
            ? envelope : #"{"schema": {"type": "struct", "fields": [\#(after)]}, "payload": \#(envelope)}"#
        let event = try DebeziumEvent.event(Self.json(text), unavailable: unavailable).event
        return try #require(event.object?["after"]?.object)
    }

    // MARK: values that the database did not send

    private static let integers = Array("__debezium_unavailable_value".utf8).map(String.init).joined(separator: ",")

    @Test(arguments: [
        #""__debezium_unavailable_value""#, #"["__debezium_unavailable_value"]"#,
        // bytea, bytea[], and binary.handling.mode=hex
        #""X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==""#, #"["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="]"#,
        #""5f5f646562657a69756d5f756e617661696c61626c655f76616c7565""#,
        // uuid[]
        #"["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]"#,
        // hstore.handling.mode=map and json
        #"{"__debezium_unavailable_value": "__debezium_unavailable_value"}"#,
        #""{\"__debezium_unavailable_value\":\"__debezium_unavailable_value\"}""#,
        // integer[], bigint[], date[]
        "[\(integers)]",
    ])
    func aColumnThatWasNotSentIsAbsent(_ value: String) throws {
        #expect(try Self.row(value) == ["id": 1])
        #expect(try Self.row(value, schema: #"{"field": "x", "type": "string"}"#) == ["id": 1])
    }

    @Test func datesThatWereNotSentAreAbsentAfterTheirConversion() throws {
        let days = Array("__debezium_unavailable_value".utf8).map { LogicalType.date.json(of: Int64($0)).text }
        #expect(try Self.row("[\(days.joined(separator: ","))]") == ["id": 1])
        let dates = #"{"field": "x", "type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date"}}"#
        #expect(try Self.row("[\(Self.integers)]", schema: dates) == ["id": 1])
    }

    @Test(arguments: [
        #""__debezium""#, "[]", "{}", #"["Bulb"]"#, #"{"Bulb": "1"}"#, #"["a", "__debezium_unavailable_value"]"#,
        #""b68a35a7-17ad-35b3-af2a-ae46edb4545a""#, "[95]", "null", #"{"__debezium_unavailable_value": "1"}"#,
    ])
    func aColumnThatWasSentIsThere(_ value: String) throws {
        #expect(try Self.row(value)["x"] == Self.json(value))
    }

    @Test(arguments: [
        ("__toasted__", ["__toasted__", "X190b2FzdGVkX18="]), ("hex:00FF10", ["\u{0}\u{FFFD}\u{10}", "AP8Q"]),
    ])
    func thePlaceholderIsThatOfTheConnector(_ property: String, _ forms: [String]) throws {
        let fixture = try SourceFixture()
        let extra = #""unavailableValuePlaceholder": "\#(property)""#
        try fixture.write("s", topics: ["events"], format: "debezium", extra: extra, "function map(e) end")
        let unavailable = try fixture.load("s").program.unavailable
        for form in forms {
            let text = JSON.string(form).text
            #expect(try Self.row(text, unavailable: unavailable) == ["id": 1])
            #expect(try Self.row("[\(text)]", unavailable: unavailable) == ["id": 1])
        }
        let standard = #""__debezium_unavailable_value""#
        #expect(try Self.row(standard, unavailable: unavailable)["x"] == "__debezium_unavailable_value")
    }

    /// As Java's `UUID.nameUUIDFromBytes` has it.
    @Test func theUUIDOfAPlaceholderIsThatOfItsName() throws {
        let fixture = try SourceFixture()
        for (property, uuid) in [
            ("__debezium_unavailable_value", "b68a35a7-17ad-35b3-af2a-ae46edb4545a"),
            ("__toasted__", "c04e9c05-54d7-3edc-996a-1ce7bc7fc20c"),
            ("hex:00ff10", "481e4551-ec03-3aad-a760-901cf52b1917"),
        ] {
            let extra = #""unavailableValuePlaceholder": "\#(property)""#
            try fixture.write(
                "s", topics: ["events"], format: "avro+debezium", extra: extra + Self.registry,
                "function map(e) end")
            let unavailable = try fixture.load("s").program.unavailable
            #expect(try Self.row(#"["\#(uuid)"]"#, unavailable: unavailable) == ["id": 1], "\(property)")
        }
    }

    private static let registry = #", "registry": {"url": "https://registry.example"}"#

    @Test(arguments: [("json", "x"), ("debezium", ""), ("debezium", "hex:0"), ("debezium", "hex:zz")])
    func aPlaceholderThatNoConnectorHasIsRefused(_ format: String, _ property: String) throws {
        let fixture = try SourceFixture()
        let extra = #""unavailableValuePlaceholder": "\#(property)""#
        try fixture.write("s", topics: ["events"], format: format, extra: extra, "function map(e) end")
        let error = #expect(throws: SourceError.self) { try fixture.load("s") }
        #expect(error?.description.hasPrefix("s: source.json: $.unavailableValuePlaceholder: ") == true)
    }

    // MARK: records that are about no row

    private static let source = #""source": {"connector": "postgresql", "name": "shop", "table": "orders"}"#

    static let others: [(IgnoredRecord, String)] = [
        (.message, #"{\#(source), "op": "m", "ts_ms": 1, "message": {"prefix": "heartbeat", "content": "cGluZw=="}}"#),
        (.truncation, #"{"before": null, "after": null, \#(source), "op": "t", "ts_ms": 1, "transaction": null}"#),
        (
            .transaction,
            #"{"status": "BEGIN", "id": "571:53195829", "event_count": null, "data_collections": null, "ts_ms": 1}"#
        ),
        (
            .transaction,
            """
            {"status": "END", "id": "571:53195832", "event_count": 2, "ts_ms": 1,
             "data_collections": [{"data_collection": "s1.a", "event_count": 1}]}
            """
        ),
        (.heartbeat, #"{"ts_ms": 1767628999330}"#), (.heartbeat, #"{"ts_ms": 1, "ts_us": 1000, "ts_ns": 1000000}"#),
        (
            .schemaChange,
            """
            {\(source), "ts_ms": 1, "databaseName": "shop", "schemaName": null, "ddl": "ALTER TABLE orders ADD x INT",
             "tableChanges": [{"type": "ALTER", "id": "\\"shop\\".\\"orders\\"", "table": {"columns": []}}]}
            """
        ),
        (.schemaChange, #"{\#(source), "position": {}, "ts_ms": 1, "databaseName": "shop", "ddl": "DROP TABLE x"}"#),
        (
            .notification,
            """
            {"id": "5563ae14", "aggregate_type": "Initial Snapshot", "type": "COMPLETED", "timestamp": 1695817046353,
             "additional_data": {"connector_name": "shop"}}
            """
        ),
    ]

    /// With and without the schema beside it, of any name: no program has to know them.
    @Test(arguments: others) func aRecordAboutNoRowIsPassedOver(_ kind: IgnoredRecord, _ text: String) throws {
        let program = "function map(e) error('it was mapped') end"
        let wrapped = #"{"schema": {"type": "struct", "name": "x", "fields": []}, "payload": \#(text)}"#
        for value in [text, wrapped] {
            let mapping = try SourceFixture.map(
                program, value: value, format: "debezium", extra: #""unmapped": "dead-letter", "deletions": true"#)
            guard case .ignored(let found) = mapping.outcome else {
                Issue.record("\(mapping.outcome)")
                continue
            }
            #expect(found == kind)
            let registry = MetricsRegistry(MetricRow.ingest)
            IngestMetrics(factory: registry).mapped(mapping, "s", took: .zero)
            let count = #"waybill_ingest_ignored_total{source="s",kind="\#(kind.rawValue)"} 1"#
            #expect(registry.text.contains(count), "\(registry.text)")
            #expect(registry.undescribed == [])
        }
    }

    @Test(arguments: [
        // A row that ExtractNewRecordState unwrapped, also one with columns like those of other records.
        (
            #"{"id": 1, "status": "open"}"#,
            "the value is no change of Debezium: $.op is missing. A topic that is unwrapped"
        ),
        (#"{"id": "1", "status": "BEGIN"}"#, "the value is no change of Debezium"),
        (#"{"id": 1, "__op": "u", "__deleted": "false"}"#, "the value is no change of Debezium"),
        (#"{"id": "1", "aggregate_type": "order", "type": "OrderPlaced"}"#, "the value is no change of Debezium"),
        (#"{"ts_ms": 1, "id": 1}"#, "the value is no change of Debezium"), ("{}", "the value is no change of Debezium"),
        (#"{"op": "x", "after": {}}"#, #"$.op is "x", a change of a row is c, u, d or r"#),
        ("[]", "the value must be an object"),
    ])
    func whatIsNoChangeIsRefused(_ value: String, _ reason: String) throws {
        let fault = try #require(
            try SourceFixture.map("function map(e) end", value: value, format: "debezium").fault)
        #expect(fault.code == .mapUndecodable)
        #expect(fault.reason.hasPrefix(reason), "\(fault.reason)")
    }

    // MARK: values

    /// - Parameter scale: nil for a decimal with a scale of its own.
    private static func decimal(_ scale: String?) -> String {
        guard let scale else {
            return #"{"field": "x", "type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}"#
        }
        return #"{"field": "x", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "\#(scale)"}}"#
    }

    @Test(
        arguments: [
            ("2", #""IxQ=""#, "89.80"), ("0", #""IxQ=""#, "8980"),
            // NUMBER(8,-2) of Oracle
            ("-2", #""IxQ=""#, "898000"), ("-2", #""AA==""#, "0"),
            // NUMBER of Oracle without a scale, 1.5 and 0
            (
                "127", #""WKL3301Y7h/ddeunVAPNh2e5XzGwOIS709vcyIxaLlb0k8mWGcAAAAAAAAAAAAAAAAAAAAA=""#,
                "1.5"
            ), ("127", #""AA==""#, "0"),
            // decimal.format=NUMERIC
            ("2", "89.80", "89.80"), ("10", "0E-10", "0.0000000000"), ("-2", "8.98E+5", "898000"),
            ("3", "-1.5e-2", "-0.015"), ("8", "1E-8", "0.00000001"),
            (nil, #"{"scale": 3, "value": "z8c="}"#, "-12.345"), (nil, #"{"scale": -2, "value": "IxQ="}"#, "898000"),
            (nil, #"{"scale": 0, "value": "AA=="}"#, "0"),
        ] as [(String?, String, String)])
    func decimalsOfAnyScaleAreTheirDigits(_ scale: String?, _ value: String, _ digits: String) throws {
        #expect(try Self.row(value, schema: Self.decimal(scale))["x"] == .string(digits))
    }

    /// In the other modes of `decimal.handling.mode`.
    @Test func aTextAndADoubleAreAsTheyWereSent() throws {
        #expect(try Self.row(#""89.80""#, schema: #"{"field": "x", "type": "string"}"#)["x"] == "89.80")
        #expect(try Self.row("89.8", schema: #"{"field": "x", "type": "double"}"#)["x"] == Self.json("89.8"))
    }

    @Test(
        arguments: [
            ("2", #""?""#), ("129", #""IxQ=""#), ("", #""IxQ=""#), ("2", "1E+129"), ("2", "1E-9999999999999999999"),
            ("2", #""""#), (nil, #"{"scale": 1}"#), (nil, #"{"scale": 9223372036854775807, "value": "IxQ="}"#),
        ] as [(String?, String)])
    func whatIsNoDecimalIsRefused(_ scale: String?, _ value: String) throws {
        let fault = #expect(throws: ChangeFault.self) { try Self.row(value, schema: Self.decimal(scale)) }
        #expect(fault?.reason == "$.after.x is not a decimal of its schema")
    }

    @Test(arguments: [
        ("io.debezium.time.Date", "20458", "2026-01-05"), ("org.apache.kafka.connect.data.Date", "20458", "2026-01-05"),
        ("io.debezium.time.Timestamp", "1767628931000", "2026-01-05T16:02:11Z"),
        ("org.apache.kafka.connect.data.Timestamp", "1767628931120", "2026-01-05T16:02:11.120Z"),
        ("io.debezium.time.MicroTimestamp", "1767628931123456", "2026-01-05T16:02:11.123456Z"),
        ("io.debezium.time.NanoTimestamp", "1767628931123456789", "2026-01-05T16:02:11.123456789Z"),
        ("io.debezium.time.MicroTimestamp", "-1", "1969-12-31T23:59:59.999999Z"),
        // Infinity in PostgreSQL
        ("io.debezium.time.MicroTimestamp", "9223372036825200000", "9999-12-31T23:59:59Z"),
        ("io.debezium.time.NanoTimestamp", "9223372036854775807", "9999-12-31T23:59:59Z"),
        ("io.debezium.time.NanoTimestamp", "-9223372036854775808", "0000-01-01T00:00:00Z"),
        ("io.debezium.time.Date", "2147483647", "9999-12-31"),
        ("io.debezium.time.ZonedTimestamp", #""2026-01-05T16:02:11.12Z""#, "2026-01-05T16:02:11.12Z"),
        // time.precision.mode=isostring
        ("io.debezium.time.IsoDate", #""2026-01-05Z""#, "2026-01-05"),
        ("io.debezium.time.IsoTimestamp", #""2026-01-05T16:02:11.123456Z""#, "2026-01-05T16:02:11.123456Z"),
        ("io.debezium.time.IsoTime", #""04:05:11.789Z""#, "04:05:11.789Z"),
        ("io.debezium.time.Interval", #""P1Y2M3DT4H5M6.78S""#, "P1Y2M3DT4H5M6.78S"),
        // time.precision.mode=structured
        ("io.debezium.time.StructuredDate", #"{"year": 2026, "month": 1, "day": 5}"#, "2026-01-05"),
        (
            "io.debezium.time.StructuredTimestamp",
            #"{"year": 2026, "month": 1, "day": 5, "hour": 16, "minute": 2, "second": 11, "nanos": 120000000}"#,
            "2026-01-05T16:02:11.120Z"
        ),
        (
            "io.debezium.time.StructuredZonedTimestamp",
            """
            {"year": 2026, "month": 1, "day": 5, "hour": 16, "minute": 2, "second": 11, "nanos": 0,
             "offsetSeconds": -12600, "specialValue": null}
            """, "2026-01-05T16:02:11-03:30"
        ),
        (
            "io.debezium.time.StructuredDate", #"{"year": null, "specialValue": "POSITIVE_INFINITY"}"#,
            "9999-12-31T23:59:59Z"
        ),
    ])
    func timesHaveOneFormInEachMode(_ name: String, _ value: String, _ text: String) throws {
        #expect(try Self.row(value, schema: #"{"field": "x", "name": "\#(name)"}"#)["x"] == .string(text))
    }

    /// The unit is that of the column.
    @Test(arguments: [
        ("io.debezium.time.Time", "14711789"), ("io.debezium.time.MicroTime", "14711789000"),
        ("io.debezium.time.NanoTime", "14711789000000"), ("org.apache.kafka.connect.data.Time", "14711789"),
        ("io.debezium.time.Year", "2026"), ("io.debezium.time.MicroDuration", "1000000"),
        ("io.debezium.data.geometry.Point", #"{"x": 1.5, "y": 2.5, "wkb": "AQ==", "srid": null}"#),
    ])
    func whatHasNoFormAsTextIsAsItWasSent(_ name: String, _ value: String) throws {
        #expect(try Self.row(value, schema: #"{"field": "x", "name": "\#(name)"}"#)["x"] == Self.json(value))
    }

    /// Extended JSON in a text, which programs cannot read.
    @Test func aDocumentOfMongoDBIsAnObject() throws {
        let text = """
            {"op": "u", "source": {"connector": "mongodb"}, "before": null,
             "after": "{\\"_id\\": {\\"$oid\\": \\"5f\\"}, \\"total\\": {\\"$numberDecimal\\": \\"89.80\\"}}"}
            """
        let event = try DebeziumEvent.event(Self.json(text)).event
        #expect(event.object?["after"] == ["_id": ["$oid": "5f"], "total": ["$numberDecimal": "89.80"]])
        #expect(event.object?["before"] == .null)
        let broken = text.replacing("}}\"}", with: "\"}")
        let fault = #expect(throws: ChangeFault.self) { try DebeziumEvent.event(Self.json(broken)) }
        #expect(fault?.reason.hasPrefix("$.after is not JSON") == true)
    }
}
