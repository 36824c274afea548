import Foundation
import Model
import TestKit
import Testing

@testable import Brands

@Suite struct OrderStringsTests {
    private func entries(_ text: String) throws -> [String] {
        try OrderStrings(parsing: Array(text.utf8)).entries.map {
            String(decoding: $0.key, as: UTF16.self) + "=" + String(decoding: $0.value, as: UTF16.self)
        }
    }

    @Test func keysAndValuesAreRead() throws {
        #expect(try self.entries("\"A\" = \"a\";\n\"B\"=\"b\" ;\r\n\"C\"\n=\n\"c\"\n;") == ["A=a", "B=b", "C=c"])
        #expect(try self.entries("") == [])
        #expect(try self.entries(" \n\t/* nothing */ // at all") == [])
        #expect(
            try self.entries(
                "/* \"X\" = \"no\"; // * / */\"B\" /* key */ = // value\n\"b\"; // end\n\"A\" = \"/*a*/\";")
                == ["A=/*a*/", "B=b"])
        #expect(
            try self.entries(#""K" = "q\" b\\ n\n t\t r\r s\' \U00E9\u20ac \UD83D\UDE00 // /* ;";"#)
                == ["K=q\" b\\ n\n t\t r\r s' é€ 😀 // /* ;"])
    }

    /// The same text in every encoding that is accepted; each results in the same file.
    @Test func theEncodingOfTheSourceDoesNotMatter() throws {
        let text = "\"GRUß\" = \"日本語 😀\";\n"
        let units = Array(text.utf16)
        let little = units.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
        let big = units.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] }
        let sources: [[UInt8]] = [
            Array(text.utf8), [0xEF, 0xBB, 0xBF] + Array(text.utf8), [0xFF, 0xFE] + little, [0xFE, 0xFF] + big,
        ]
        for source in sources { #expect(try OrderStrings(parsing: source).encoded == [0xFF, 0xFE] + little) }
    }

    /// Source: Wallet Orders §2.6 (UTF-16 for anything outside ASCII)
    @Test func onlyASCIIIsWrittenAsASCII() throws {
        let plain = try OrderStrings(
            parsing: Array("/* c */\"B\"=\"\\U007F\\U0001\";\"A\"=\"a\\\"\\\\\\n\\r\\t\\'\";".utf8))
        #expect(
            String(decoding: plain.encoded, as: UTF8.self)
                == "\"A\" = \"a\\\"\\\\\\n\\r\\t'\";\n\"B\" = \"\\U007F\\U0001\";\n")
        let escaped = try OrderStrings(parsing: Array("\"A\" = \"\\U00E9\";".utf8))
        #expect(escaped.encoded.starts(with: [0xFF, 0xFE]))
        #expect(try OrderStrings(parsing: []).encoded == [])
    }

    /// A written file has the same content when it is read again, and is written identically again.
    @Test func encodedStringsParseToTheSameEntries() throws {
        var random = SeededGenerator(seed: 7)
        let signs = Array("ab\"\\\n\r\t/*;= é€😀\u{7F}\u{1}\u{2028}'")
        for _ in 0..<500 {
            func text() -> String {
                String(
                    (0..<Int.random(in: 1...8, using: &random)).map { _ in signs.randomElement(using: &random) ?? "x" })
            }
            var units: [[UInt16]: [UInt16]] = [:]
            for _ in 0..<3 { units[Array(text().utf16)] = Array(text().utf16) }
            let source = units.map { key, value in
                "\(Self.quoted(key)) = \(Self.quoted(value));"
            }.joined(separator: "\n")
            let strings = try OrderStrings(parsing: Array(source.utf8))
            let again = try OrderStrings(parsing: strings.encoded)
            #expect(again.encoded == strings.encoded)
            #expect(Dictionary(uniqueKeysWithValues: again.entries.map { ($0.key, $0.value) }) == units)
        }
    }

    /// Writes every unit as an escape, without the code under test.
    private static func quoted(_ units: [UInt16]) -> String {
        "\""
            + units.map {
                "\\U" + String(repeating: "0", count: 4 - String($0, radix: 16).count) + String($0, radix: 16)
            }
            .joined() + "\""
    }

    @Test(arguments: [
        ("\"A\" = \"a\"\n\"B\" = \"b\";", 1, "a ; is missing after the value of \"A\""),
        ("\n\"A\" \"a\";", 2, "a = is missing after the key \"A\""),
        ("\"A\";", 1, "a = is missing after the key \"A\""),
        ("\n\nA = \"a\";", 3, "a key in quotation marks is expected, found \"A\""),
        ("\"A\" = a;", 1, "the value of \"A\" in quotation marks is expected"),
        ("\"A\" = ", 1, "is expected, the file ends"), ("\"A\"", 1, "a = is missing"),
        ("\"A\" = \"a;\n\"B\" = \"b\";", 1, "a text has no end on its line"), ("\"A", 1, "a text has no end"),
        ("\"\" = \"a\";", 1, "the key is empty"), ("\"A\" = \"\";", 1, "the value of \"A\" is empty"),
        ("// x\r\n/*\r\n*/\r\"A\" = \"a\";\r\"A\" = \"b\";", 5, "the key \"A\" is already in line 4; remove one"),
        ("\"A\" = \"a\";\n/* x\n", 2, "the comment that begins here has no end"),
        (#""A" = "\q";"#, 1, "the escape \\q is not valid"), (#""A" = "\101";"#, 1, "the escape \\1 is not valid"),
        (#""A" = "\U00G9";"#, 1, "needs four hexadecimal digits"),
        (#""A" = "\U12"#, 1, "needs four hexadecimal digits"),
        (#""A" = "\U0000";"#, 1, "is not a character"), (#""A" = "\UD83D";"#, 1, "half of a surrogate pair"),
        (#""A" = "\UDE00\UD83D";"#, 1, "half of a surrogate pair"),
        ("\"A\" = \"\u{1}\";", 1, "a control character (code 1)"),
        ("\"A\" = \"\\", 1, "ends in the middle of an escape"), ("\"A\" = \"a\";\n\0", 2, "a zero byte"),
        ("<plist/>", 1, "a key in quotation marks is expected, found \"<\""), ("\"A\" = \"a\"; /", 1, "a key"),
    ])
    func aMistakeIsNamedWithItsLine(_ text: String, _ line: Int, _ message: String) {
        let fault = #expect(throws: OrderStringsFault.self) { try OrderStrings(parsing: Array(text.utf8)) }
        #expect(fault?.line == line, "\(fault?.message ?? "")")
        #expect(fault?.message.contains(message) == true, "\(fault?.message ?? "")")
    }

    @Test func brokenEncodingsAreNamed() {
        let cases: [([UInt8], Int?, String)] = [
            (Array("\"A\" = \"a\";\n\"B\" = \"".utf8) + [0xFC, 0x22, 0x3B], 2, "it is not UTF-8"),
            ([0xFF, 0xFE, 0x22], nil, "ends in the middle of a character"),
            ([0xFF, 0xFE, 0, 0, 0x22, 0, 0, 0], nil, "it is UTF-32"), ([0, 0, 0xFE, 0xFF], nil, "it is UTF-32"),
            ([0x22, 0, 0x41, 0, 0x22, 0], 1, "UTF-16 needs a byte order mark"),
            ([0xFF, 0xFE, 0x22, 0, 0x3D, 0xD8, 0x22, 0], 1, "half of a surrogate pair"),
            ([UInt8](repeating: 0x20, count: 1_000_001), nil, "at most 1000000 are allowed"),
        ]
        for (bytes, line, message) in cases {
            let fault = #expect(throws: OrderStringsFault.self) { try OrderStrings(parsing: bytes) }
            #expect(fault?.line == line)
            #expect(fault?.message.contains(message) == true, "\(fault?.message ?? "")")
        }
    }

    /// Every prefix of a good file is read or refused; none traps.
    @Test func truncatedStringsNeverTrap() {
        let text = Array("\u{FEFF}// c\n/* d */\"K\\U00e9\" = \"v\\\"\\n\"; // e".utf8)
        for count in 0...text.count { _ = try? OrderStrings(parsing: Array(text.prefix(count))) }
        let wide: [UInt8] = [0xFE, 0xFF] + "\"A\" = \"😀\";".utf16.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] }
        for count in 0...wide.count { _ = try? OrderStrings(parsing: Array(wide.prefix(count))) }
    }
}
