import Foundation
import Lua
import Model
import TestKit
import Testing

/// Events that a program reads from their text: as `JSON` reads them, or not at all.
@Suite struct LuaTextTests {
    private static let echo = "function map(event) return {{data = {value = event}}} end"

    /// Each kind of fault, and each edge of what is none.
    @Test(arguments: [
        "", " ", "{", "}", "[1,]", "[,1]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "1 2", "[1] x", "nul", "nulll",
        "tru", "TRUE", "01", "-", "-01", "1.", ".5", "1e", "1e+", "+1", "0x1", "1_0", "--1", "\"", "\"\\\"", "\"\\x\"",
        "\"\\u12\"", "\"\\u12g4\"", "\"\u{1}\"", "\"\t\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"",
        "\"\\ud800\\n\"", "{\"a\":1,\"a\":1}", "{\"a\":1,\"\\u0061\":2}", "[{\"a\":1,\"b\":{\"c\":1,\"c\":null}}]",
        "\u{FEFF}1", "'a'", "NaN", "Infinity", "/**/1", "[1 2]", "{\"a\" 1}", "\u{A0}1",
        "0", "-0", "-0.0", "1E5", "1e-5", "0e0", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
        "-9223372036854775809", "18446744073709551616", "99999999999999999999999999", "\t[ 1 ,\r\n2 ] ", "[]", "{ }",
        "{\"\":{\"\":[]}}", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\u00e4\\ud83d\\ude00\"", "\"ä€😀\u{7F}\"",
        "\"12345678\\n12345678\"", "\"1234567ä\"", "{\"0123456789012345678901234567890123456789x\":1}",
        "{\"0123456789012345678901234567890123456789x\":1,\"0123456789012345678901234567890123456789x\":1}",
    ])
    func aTextIsReadAsJSONIsOrNotAtAll(_ text: String) throws {
        let program = try LuaProgram(Array(Self.echo.utf8))
        try Self.compare(Array(text.utf8), program)
    }

    @Test(arguments: [
        [0x22, 0x80, 0x22], [0x22, 0xC0, 0x80, 0x22], [0x22, 0xC3, 0x22], [0x22, 0xE0, 0x80, 0x80, 0x22],
        [0x22, 0xED, 0xA0, 0x80, 0x22], [0x22, 0xF0, 0x80, 0x80, 0x80, 0x22], [0x22, 0xF4, 0x90, 0x80, 0x80, 0x22],
        [0x22, 0xF5, 0x80, 0x80, 0x80, 0x22], [0x22, 0xE2, 0x82], [0x22, 0xFF, 0x22],
        [0x22, 0xF4, 0x8F, 0xBF, 0xBF, 0x22],
        [0x22, 0xEF, 0xBF, 0xBF, 0x22], [0x22, 0xE2, 0x28, 0xA1, 0x22], [0xEF, 0xBB, 0xBF, 0x31], [0x31, 0x00],
    ])
    func bytesAreReadAsUTF8IsOrNotAtAll(_ bytes: [UInt8]) throws {
        try Self.compare(bytes, try LuaProgram(Array(Self.echo.utf8)))
    }

    @Test func anEventIsAsDeepAndLargeAsJSONMayBe() throws {
        let program = try LuaProgram(Array("function map(event) return {} end".utf8))
        for depth in JSON.depthLimit - 1...JSON.depthLimit + 3 {
            for inside in ["", "1", "{\"a\":1}", "[]"] {
                let text =
                    Array("\(String(repeating: "[", count: depth))\(inside)".utf8)
                    + Array(repeating: UInt8(ascii: "]"), count: depth)
                #expect(try (program.map(text: text, record: .null) != nil) == ((try? JSON(parsing: text)) != nil))
            }
        }
        for count in JSON.entryLimit - 3...JSON.entryLimit + 1 {
            let text = Array("[\(repeatElement("1", count: count).joined(separator: ","))]".utf8)
            #expect(try (program.map(text: text, record: .null) != nil) == (count < JSON.entryLimit))
        }
        // Lists and objects of any size have all that they had.
        let sum = try LuaProgram(
            Array(
                """
                function map(event)
                    local all = 0
                    for place, value in ipairs(event.list) do all = all + place * value end
                    for name, value in pairs(event.object) do all = all + tonumber(name) * value end
                    return {{all = all, count = #event.list}}
                end
                """.utf8))
        for count in [0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000] {
            let list = (1...max(count, 1)).prefix(count).map(String.init)
            let text =
                "{\"list\":[\(list.joined(separator: ","))],"
                + "\"object\":{\(list.map { "\"\($0)\":\($0)" }.joined(separator: ","))}}"
            let squares = (0...Int64(count)).reduce(0) { $0 + $1 * $1 }
            let result = try sum.map(text: Array(text.utf8), record: .null)
            #expect(result?.value == [["all": .integer(2 * squares), "count": .integer(Int64(count))]])
            let double = text.replacing("}}", with: ",\"1\":0}}")
            if count > 0 { #expect(try sum.map(text: Array(double.utf8), record: .null)?.text == nil) }
        }
    }

    /// The examples' events, and each with a byte that is another one.
    @Test func examplesAndFaultyCopiesAreReadAlike() throws {
        var random = SeededGenerator(seed: 52)
        let program = try LuaProgram(Array(Self.echo.utf8))
        let root = Repository.root.appending(path: "compose/connect/sources")
        var count = 0
        for folder in try FileManager.default.contentsOfDirectory(atPath: root.path()).sorted() {
            let tests = root.appending(path: "\(folder)/tests")
            for name in (try? FileManager.default.contentsOfDirectory(atPath: tests.path()).sorted()) ?? [] {
                let text = Array(try Data(contentsOf: tests.appending(path: name)))
                try Self.compare(text, program)
                for _ in 0..<4 {
                    var faulty = text
                    let place = Int.random(in: faulty.indices, using: &random)
                    switch UInt8.random(in: 0...3, using: &random) {
                    case 0: faulty.remove(at: place)
                    case 1: faulty.insert(faulty[Int.random(in: faulty.indices, using: &random)], at: place)
                    case 2: faulty[place] = UInt8.random(in: 0...255, using: &random)
                    default: faulty.removeLast(faulty.count - place)
                    }
                    try Self.compare(faulty, program)
                }
                count += 1
            }
        }
        #expect(count > 50)
    }

    @Test func randomTextsAreReadAlike() throws {
        var random = SeededGenerator(seed: 53)
        let program = try LuaProgram(Array(Self.echo.utf8))
        for _ in 0..<3000 {
            var text = ""
            Self.append(depth: 0, to: &text, &random)
            try Self.compare(Array(text.utf8), program)
        }
    }

    /// Appends a value of JSON, now and then with a fault.
    private static func append(depth: Int, to text: inout String, _ random: inout SeededGenerator) {
        func one(_ texts: [String]) -> String { texts.randomElement(using: &random) ?? "" }
        text += one(["", "", "", " ", "\n"])
        switch Int.random(in: depth > 4 ? 4...9 : 0...9, using: &random) {
        case 0, 1:
            text += "["
            for index in 0..<Int.random(in: 0...5, using: &random) {
                if index > 0 { text += one([",", ",", ",", ",", ",", ",", " , ", ", ", ",,"]) }
                Self.append(depth: depth + 1, to: &text, &random)
            }
            text += "]"
        case 2, 3:
            text += "{"
            for index in 0..<Int.random(in: 0...9, using: &random) {
                if index > 0 { text += "," }
                text += "\"\(one(["a", "b", "c", "d\\u0065", "ä", ""]))\(Int.random(in: 0...60, using: &random))\":"
                Self.append(depth: depth + 1, to: &text, &random)
            }
            text += "}"
        case 4: text += one(["true", "false", "null", "nil"])
        case 5: text += one(["0", "-1", "1.50", "1e3", "123456789012345678901", "00"])
        default:
            text += "\"\(one(["x", "\\n", "\\u00fc", "\\ud83d\\ude00", "😀", "\\ud83d", "long enough for two words"]))"
            text += "\(one(["", "y", "\\\\", "ß"]))\""
        }
    }

    /// Compares what a program has of a text with what `JSON` has of it.
    private static func compare(_ bytes: [UInt8], _ program: LuaProgram) throws {
        let result = try program.map(text: bytes, record: .null)
        guard let event = try? JSON(parsing: bytes) else {
            #expect(result?.text == nil, "\(String(decoding: bytes, as: UTF8.self))")
            return
        }
        #expect(
            result?.value == [["data": ["value": Self.shown(event)]]], "\(String(decoding: bytes, as: UTF8.self))")
        #expect(try program.map(event, record: .null).text == result?.text)
    }

    /// Returns a value as a program shows it: numbers are integers or texts, and empty lists are empty tables.
    private static func shown(_ value: JSON) -> JSON {
        switch value {
        case .number(let number): number.integer.map { .integer($0) } ?? .string(number.text)
        case .array(let elements): elements.isEmpty ? [:] : .array(elements.map(Self.shown))
        case .object(let object): .object(JSONObject(object.members.map { ($0.name, Self.shown($0.value)) }))
        case .null, .bool, .string: value
        }
    }
}
