import Cryptography
import Foundation
import Model
import TestKit
import Testing

@testable import Packager

/// Avro's binary encoding, as a registry's producers write it.
@Suite struct AvroTests {
    private static func schema(_ text: String) throws -> AvroSchema {
        try AvroSchema(Array(text.utf8))
    }

    private static func decode(_ bytes: [UInt8], _ schema: AvroSchema) throws(AvroError) -> JSON {
        try AvroDecoder.json(of: AvroDecoder.text(of: bytes, schema))
    }

    private static func decode(_ bytes: [UInt8], _ schema: String) throws -> String {
        try Self.decode(bytes, try Self.schema(schema)).text
    }

    @Test(
        arguments: [
            (#""null""#, [], "null"), (#""boolean""#, [1], "true"), (#""int""#, [0x03], "-2"),
            (#""long""#, [0x80, 0x01], "64"),
            (#""long""#, [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01], "-9223372036854775808"),
            (#""double""#, [0, 0, 0, 0, 0, 0, 0xF8, 0x3F], "1.5"), (#""float""#, [0xCD, 0xCC, 0xCC, 0x3D], "0.1"),
            (#""bytes""#, [0x04, 0xFF, 0x00], #""/wA=""#), (#""string""#, [0x06, 0x66, 0x6F, 0x6F], #""foo""#),
            (#"{"type":"array","items":"long"}"#, [0x04, 0x06, 0x36, 0x00], "[3,27]"),
            (#"{"type":"array","items":"long"}"#, [0x03, 0x04, 0x06, 0x36, 0x00], "[3,27]"),
            (#"{"type":"map","values":"int"}"#, [0x02, 0x02, 0x61, 0x02, 0x00], #"{"a":1}"#),
            (#"["null","string"]"#, [0x02, 0x02, 0x61], #""a""#), (#"["null","string"]"#, [0x00], "null"),
            (#"{"type":"enum","name":"E","symbols":["A","B"]}"#, [0x02], #""B""#),
            (#"{"type":"fixed","name":"F","size":2}"#, [0x01, 0x02], #""AQI=""#),
            (
                #"{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}"#, [0x06, 0x4D, 0xBC, 0x00],
                #""50944.00""#
            ),
            (#"{"type":"int","logicalType":"date"}"#, [0xF0, 0xBA, 0x02], #""2025-03-05""#),
            (#"{"type":"long","logicalType":"timestamp-millis"}"#, [0x01], #""1969-12-31T23:59:59.999Z""#),
            (
                #"{"type":"long","connect.name":"io.debezium.time.MicroTimestamp"}"#, [0x02],
                #""1970-01-01T00:00:00.000001Z""#
            ),
            (
                #"{"type":"record","name":"L","fields":[{"name":"v","type":"int"},{"name":"n","type":["null","L"]}]}"#,
                [0x02, 0x02, 0x04, 0x00], #"{"n":{"n":null,"v":2},"v":1}"#
            ),
        ] as [(String, [UInt8], String)])
    func valuesAreReadExactly(_ schema: String, _ bytes: [UInt8], _ json: String) throws {
        #expect(try Self.decode(bytes, schema) == json)
    }

    /// The bytes are those that fastavro 1.13 writes, except of nanoseconds, `big-decimal`, `duration`, and `uuid` of a
    /// fixed type, which it does not know.
    ///
    /// Source: Apache Avro 1.12 specification, "Logical Types"
    @Test(
        arguments: [
            (#"{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}"#, "04dcec", "-89.80"),
            (
                #"{"type":"fixed","name":"F","size":9,"logicalType":"decimal","precision":20,"scale":4}"#,
                "000000000000bc6100", "1234.5600"
            ),
            (#"{"type":"bytes","logicalType":"decimal","precision":4}"#, "02ff", "-1"),
            (#"{"type":"bytes","logicalType":"big-decimal"}"#, "0804231404", "89.80"),
            (#"{"type":"bytes","logicalType":"big-decimal"}"#, "0602ff03", "-100"),
            (#"{"type":"int","logicalType":"date"}"#, "d4bf02", "2026-01-05"),
            (#"{"type":"long","logicalType":"timestamp-millis"}"#, "e680a8eef166", "2026-01-05T16:02:11.123Z"),
            (#"{"type":"long","logicalType":"timestamp-micros"}"#, "80a4c6e8c5e9a306", "2026-01-05T16:02:11.123456Z"),
            (
                #"{"type":"long","logicalType":"timestamp-nanos"}"#, "aaac89e5b8c9f08731",
                "2026-01-05T16:02:11.123456789Z"
            ),
            (#"{"type":"long","logicalType":"local-timestamp-millis"}"#, "e680a8eef166", "2026-01-05T16:02:11.123"),
            (
                #"{"type":"long","logicalType":"local-timestamp-micros"}"#, "80a4c6e8c5e9a306",
                "2026-01-05T16:02:11.123456"
            ),
            (
                #"{"type":"long","logicalType":"local-timestamp-nanos"}"#, "aaac89e5b8c9f08731",
                "2026-01-05T16:02:11.123456789"
            ),
            (
                #"{"type":"string","logicalType":"uuid"}"#,
                "4866383164346661652d376465632d313164302d613736352d303061306339316536626636",
                "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
            ),
            (
                #"{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}"#, "f81d4fae7dec11d0a76500a0c91e6bf6",
                "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
            ),
            (
                #"{"type":"fixed","name":"D","size":12,"logicalType":"duration"}"#, "0100000002000000bc0b0000",
                "P1M2DT3.004S"
            ),
            (#"{"type":"fixed","name":"D","size":12,"logicalType":"duration"}"#, "000000000000000000000000", "PT0S"),
            (
                #"{"type":"fixed","name":"D","size":12,"logicalType":"duration"}"#, "ffffffff00000000ffffffff",
                "P4294967295MT4294967.295S"
            ),
            // Databases have such moments for infinity.
            (#"{"type":"long","logicalType":"timestamp-micros"}"#, "ffffffffffffffffff01", "0000-01-01T00:00:00Z"),
            (#"{"type":"int","logicalType":"date"}"#, "feffffff0f", "9999-12-31"),
            // Kafka Connect: a decimal whose scale no logical type may have.
            (
                """
                {"type":"bytes","scale":-2,"precision":64,"connect.parameters":{"scale":"-2"},
                 "connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}
                """, "042314", "898000"
            ),
            (#"{"type":"string","connect.name":"io.debezium.time.IsoDate"}"#, "16323032362d30312d30355a", "2026-01-05"),
            (
                """
                {"type":"record","name":"V","connect.name":"io.debezium.data.VariableScaleDecimal","fields":[
                 {"name":"scale","type":"int"},{"name":"value","type":"bytes"}]}
                """, "03042314", "898000"
            ),
        ] as [(String, String, String)])
    func aLogicalTypeIsItsText(_ schema: String, _ hexadecimal: String, _ text: String) throws {
        let bytes = try #require(Hexadecimal.bytes(hexadecimal))
        #expect(try Self.decode(bytes, schema) == JSON.string(text).text)
    }

    @Test(arguments: ["00", "0200", "04000004", "02"]) func aDecimalWithoutItsPartsIsRefused(_ hexadecimal: String)
        throws
    {
        let bytes = try #require(Hexadecimal.bytes(hexadecimal))
        #expect(throws: AvroError.self) { try Self.decode(bytes, #"{"type":"bytes","logicalType":"big-decimal"}"#) }
    }

    /// Source: Apache Avro 1.12 specification, "Logical Types": one that is not valid is ignored.
    @Test(
        arguments: [
            (#"{"type":"int","logicalType":"timestamp-millis"}"#, [0x01], "-1"),
            (#"{"type":"long","logicalType":"date"}"#, [0xFE, 0xFF, 0xFF, 0xFF, 0x1F], "4294967295"),
            (#"{"type":"string","logicalType":"date"}"#, [0x02, 0x61], #""a""#),
            (#"{"type":"string","logicalType":"decimal","scale":99}"#, [0x02, 0x61], #""a""#),
            (#"{"type":"int","logicalType":"time-millis"}"#, [0x02], "1"),
            (#"{"type":"int","logicalType":"unheard-of"}"#, [0x02], "1"),
            (#"{"type":"long","logicalType":"time-micros"}"#, [0x02], "1"),
            (#"{"type":"bytes","logicalType":"decimal","precision":2,"scale":3}"#, [0x02, 0x01], #""AQ==""#),
            (#"{"type":"bytes","logicalType":"decimal","precision":2,"scale":-1}"#, [0x02, 0x01], #""AQ==""#),
            (#"{"type":"bytes","logicalType":"decimal","scale":2}"#, [0x02, 0x01], #""AQ==""#),
            (#"{"type":"bytes","logicalType":"decimal","precision":0}"#, [0x02, 0x01], #""AQ==""#),
            (#"{"type":"bytes","logicalType":"decimal","precision":9,"scale":"2"}"#, [0x02, 0x01], #""AQ==""#),
            (#"{"type":"fixed","name":"F","size":1,"logicalType":"decimal","precision":3}"#, [0x01], #""AQ==""#),
            (#"{"type":"fixed","name":"F","size":1,"logicalType":"uuid"}"#, [0x01], #""AQ==""#),
            (#"{"type":"fixed","name":"F","size":1,"logicalType":"duration"}"#, [0x01], #""AQ==""#),
            (#"{"type":"bytes","logicalType":7}"#, [0x02, 0x01], #""AQ==""#),
        ] as [(String, [UInt8], String)])
    func aMeaningOfAnotherTypeIsIgnored(_ schema: String, _ bytes: [UInt8], _ json: String) throws {
        #expect(try Self.decode(bytes, schema) == json)
    }

    @Test(
        arguments: [
            (#""boolean""#, [2], "a boolean"), (#""string""#, [0x04, 0x66], "the value ends early"),
            (#""string""#, [0x01], "a length is out of range"), (#""string""#, [0x02, 0xFF], "a text is not UTF-8"),
            (#""int""#, [0x80, 0x80, 0x80, 0x80, 0x10], "an int has 32 bits"),
            (#""long""#, [UInt8](repeating: 0xFF, count: 11), "a number has more than 64 bits"),
            (#"["null"]"#, [0x02], "a union has no type 1"), (#""null""#, [0], "1 bytes follow the value"),
            (#"{"type":"enum","name":"E","symbols":["A"]}"#, [0x03], "there is no symbol -2"),
            (#"{"type":"map","values":"null"}"#, [0x04, 0x00, 0x00, 0x00], "a map has a name twice"),
            (
                #"{"type":"record","name":"L","fields":[{"name":"n","type":["null","L"]}]}"#,
                [UInt8](repeating: 0x02, count: 100), "nested too deeply"
            ),
            (#""double""#, [0, 0, 0, 0, 0, 0, 0xF0, 0x7F], "a number is not finite"),
        ] as [(String, [UInt8], String)])
    func aDamagedValueIsRefused(_ schema: String, _ bytes: [UInt8], _ reason: String) throws {
        let schema = try Self.schema(schema)
        let error = #expect(throws: AvroError.self) { try Self.decode(bytes, schema) }
        #expect(error?.description.hasPrefix(reason) == true, "\(error as Any)")
    }

    /// A count of 2^31 items in six bytes.
    @Test(arguments: [
        #"{"type":"array","items":"null"}"#, #"{"type":"array","items":{"type":"record","name":"E","fields":[]}}"#,
        #"{"type":"array","items":"long"}"#, #"{"type":"map","values":"null"}"#,
    ])
    func anArrayBombIsRefusedAtOnce(_ schema: String) throws {
        let schema = try Self.schema(schema)
        let start = ContinuousClock.now
        #expect(throws: AvroError.self) {
            try Self.decode([0x80, 0x80, 0x80, 0x80, 0x10, 0x00], schema)
        }
        #expect(ContinuousClock.now - start < .milliseconds(50))
    }

    @Test(arguments: [
        #""unknown""#, "7", "[]", #"{"type":"record","fields":[]}"#, #"{"type":"fixed","name":"F","size":-1}"#,
        #"{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}"#,
        #"{"type":"array"}"#, #"{"type":"enum","name":"E","symbols":["A",7]}"#, #"{"type":"enum","name":"E"}"#,
        String(repeating: "[", count: 300) + #""null""# + String(repeating: "]", count: 300),
    ])
    func aTextThatIsNoSchemaIsRefused(_ text: String) {
        #expect(throws: (any Error).self) { try Self.schema(text) }
    }

    /// Returns a schema of records in optional fields, and its only value.
    private static func nested(_ levels: Int) -> (schema: String, bytes: [UInt8]) {
        var schema = #"{"type":"record","name":"R\#(levels)","fields":[{"name":"v","type":"int"}]}"#
        for level in (1..<levels).reversed() {
            schema = #"{"type":"record","name":"R\#(level)","fields":[{"name":"r","type":["null",\#(schema)]}]}"#
        }
        return (schema, [UInt8](repeating: 0x02, count: levels))
    }

    /// A schema may be as deep as its values, which have the depth of JSON.
    @Test func aSchemaIsAsDeepAsItsValues() throws {
        for levels in [1, 9, JSON.depthLimit] {
            let (schema, bytes) = Self.nested(levels)
            let text = try Self.decode(bytes, schema)
            #expect(
                text == String(repeating: #"{"r":"#, count: levels - 1) + #"{"v":1}"#
                    + String(repeating: "}", count: levels - 1))
            #expect(throws: Never.self) { try JSON(parsing: Array(text.utf8)) }
        }
        let error = #expect(throws: AvroError.self) { try Self.schema(Self.nested(JSON.depthLimit + 1).schema) }
        #expect(error?.description.hasSuffix("records are nested deeper than 32 levels") == true, "\(error as Any)")
    }

    @Test(arguments: [
        #"{"type":"record","name":"R","fields":[{"name":"NAME","type":"int"}]}"#,
        #"{"type":"fixed","name":"NAME","size":1}"#,
        #"{"type":"enum","name":"E","symbols":["NAME"]}"#, #"{"type":"fixed","name":"F","namespace":"NAME","size":1}"#,
    ])
    func aNameHas255BytesAtMost(_ schema: String) throws {
        func named(_ count: Int) throws {
            _ = try Self.schema(schema.replacing("NAME", with: String(repeating: "n", count: count)))
        }
        try named(255)
        let error = #expect(throws: AvroError.self) { try named(256) }
        #expect(error?.description.contains("255 bytes") == true)
    }

    /// Each record names the one before three times, and all may be empty.
    @Test func aSchemaIsMeasuredInProportion() throws {
        let growth = try ProcessorTime.growth(from: 100) { levels -> [UInt8] in
            var fields = [#"{"name":"f0","type":{"type":"record","name":"A0","fields":[]}}"#]
            for level in 1...levels {
                let inner = "abc".map { #"{"name":"\#($0)","type":"A\#(level - 1)"}"# }.joined(separator: ",")
                fields.append(
                    #"{"name":"f\#(level)","type":{"type":"record","name":"A\#(level)","fields":[\#(inner)]}}"#)
            }
            return Array(#"{"type":"record","name":"R","fields":[\#(fields.joined(separator: ","))]}"#.utf8)
        } work: {
            let schema = try AvroSchema($0)
            #expect(!schema.nodes.contains { $0.hasBytes })
        }
        #expect(growth < 20)
    }

    /// A record has bytes if one of its fields has, also one that comes after a record that contains it.
    @Test func recordsThatContainEachOtherMayBeItems() throws {
        let schema = """
            {"type":"record","name":"A","fields":[
              {"name":"b","type":["null",{"type":"record","name":"B","fields":[
                {"name":"as","type":{"type":"array","items":"A"}}]}]},
              {"name":"x","type":"int"}]}
            """
        #expect(
            try Self.decode([0x02, 0x02, 0x00, 0x04, 0x00, 0x06], schema) == #"{"b":{"as":[{"b":null,"x":2}]},"x":3}"#)
    }

    @Test func namesAreLookedUpInTheirNamespace() throws {
        let schema = """
            {"type": "record", "name": "R", "namespace": "a.b", "fields": [
              {"name": "x", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
              {"name": "y", "type": "E"}, {"name": "z", "type": "a.b.E"}]}
            """
        #expect(try Self.decode([0, 0, 0], schema) == #"{"x":"A","y":"A","z":"A"}"#)
        let without = """
            {"type": "record", "name": ".R", "fields": [
              {"name": "x", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
              {"name": "y", "type": {"type": "record", "name": "S", "namespace": ".b", "fields": [
                {"name": "z", "type": ".E"}, {"name": "s", "type": ["null", "b.S"]}]}}]}
            """
        #expect(try Self.decode([0, 0, 0], without) == #"{"x":"A","y":{"s":null,"z":"A"}}"#)
    }

    @Test func aSourceOfAvroNeedsItsRegistry() throws {
        let fixture = try SourceFixture()
        try fixture.write("a", topics: ["events"], format: "avro", "function map(e) end")
        let missing = #expect(throws: SourceError.self) { try fixture.load("a") }
        #expect(missing?.description.hasPrefix("a: source.json: $.registry: is missing") == true)
        try fixture.write(
            "a", topics: ["events"], format: "avro", extra: #""registry": {"url": "http://registry"}"#,
            "function map(e) end")
        let plain = #expect(throws: SourceError.self) { try fixture.load("a") }
        #expect(plain?.description.hasSuffix("must begin with https://") == true)
    }
}
