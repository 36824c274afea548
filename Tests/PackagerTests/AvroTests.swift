import Foundation
import Model
import TestKit
import Testing

@testable import Packager

/// Avro's binary encoding, as a registry's producers write it.
@Suite struct AvroTests {
    private static func schema(_ text: String) throws -> AvroSchema {
        try AvroSchema(try JSON(parsing: Array(text.utf8)))
    }

    private static func decode(_ bytes: [UInt8], _ schema: String) throws -> String {
        try AvroDecoder.decode(bytes, try Self.schema(schema)).text
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

    /// Source: Apache Avro 1.11 specification, "Logical Types": one that is not that of its type is ignored.
    @Test(
        arguments: [
            (#"{"type":"int","logicalType":"timestamp-millis"}"#, [0x01], "-1"),
            (#"{"type":"long","logicalType":"date"}"#, [0xFE, 0xFF, 0xFF, 0xFF, 0x1F], "4294967295"),
            (#"{"type":"string","logicalType":"date"}"#, [0x02, 0x61], #""a""#),
            (#"{"type":"string","logicalType":"decimal","scale":99}"#, [0x02, 0x61], #""a""#),
            (#"{"type":"int","logicalType":"time-millis"}"#, [0x02], "1"),
            (#"{"type":"int","logicalType":"unheard-of"}"#, [0x02], "1"),
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
        let error = #expect(throws: AvroError.self) { try AvroDecoder.decode(bytes, schema) }
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
            try AvroDecoder.decode([0x80, 0x80, 0x80, 0x80, 0x10, 0x00], schema)
        }
        #expect(ContinuousClock.now - start < .milliseconds(50))
    }

    @Test(arguments: [
        #""unknown""#, "7", "[]", #"{"type":"record","fields":[]}"#, #"{"type":"fixed","name":"F","size":-1}"#,
        #"{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}"#,
        #"{"type":"bytes","logicalType":"decimal","scale":99}"#,
        String(repeating: #"{"type":"array","items":"#, count: 30) + String(repeating: "}", count: 30),
    ])
    func aTextThatIsNoSchemaIsRefused(_ text: String) {
        #expect(throws: (any Error).self) { try Self.schema(text) }
    }

    @Test func namesAreLookedUpInTheirNamespace() throws {
        let schema = """
            {"type": "record", "name": "R", "namespace": "a.b", "fields": [
              {"name": "x", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
              {"name": "y", "type": "E"}, {"name": "z", "type": "a.b.E"}]}
            """
        #expect(try Self.decode([0, 0, 0], schema) == #"{"x":"A","y":"A","z":"A"}"#)
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
