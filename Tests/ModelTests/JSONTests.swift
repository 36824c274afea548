import TestKit
import Testing

@testable import Model

@Suite struct JSONTests {
    @Test func everyTruncationIsRefused() throws {
        let bytes = try Examples.order(1).serialized
        for length in bytes.indices {
            #expect(throws: JSONError.self) { try JSON(parsing: Array(bytes[..<length])) }
        }
        #expect(try JSON(parsing: bytes) == Examples.order(1))
    }

    @Test func everyChangedByteIsReadOrRefusedAndNeverTraps() throws {
        let bytes = Array(#"{"a":[1,-2.5e+3,"\u00e9\ud83d\ude00\n",true,false,null,{}],"é":"ü"}"#.utf8)
        for index in bytes.indices {
            for byte in UInt8.min...UInt8.max {
                var changed = bytes
                changed[index] = byte
                if let json = try? JSON(parsing: changed) { #expect(try JSON(parsing: json.serialized) == json) }
            }
        }
    }

    /// The writer examines words of eight bytes: every position in and after a word, next to two-byte letters.
    @Test func aCharacterThatNeedsEscapingIsFoundAtAnyPosition() throws {
        for scalar in (0..<0x80).compactMap({ Unicode.Scalar(UInt8($0)) }) {
            for place in 0..<18 {
                var text = String(repeating: "é", count: place / 2) + String(repeating: "~", count: place % 2)
                text.unicodeScalars.append(scalar)
                text += "behind it"
                let bytes = JSON.string(text).serialized
                let isPlain = scalar.value >= 0x20 && scalar != "\"" && scalar != "\\"
                #expect(isPlain == (bytes.count == text.utf8.count + 2))
                #expect(try JSON(parsing: bytes) == .string(text))
            }
        }
    }

    @Test func aDepthBombIsRefused() {
        for (open, close) in [("[", "]"), (#"{"a":"#, "}")] {
            let bomb = String(repeating: open, count: 100_000)
            #expect { try JSON(parsing: Array(bomb.utf8)) } throws: { ($0 as? JSONError)?.code == .tooDeep }
            let deepest = String(repeating: open, count: 32) + "1" + String(repeating: close, count: 32)
            #expect(throws: Never.self) { try JSON(parsing: Array(deepest.utf8)) }
        }
    }

    @Test(arguments: [
        #""\ud800""#, #""\udc00""#, #""\ud800\ud800""#, #""\ud800x""#, #""\ud800\n""#, #""\u12g4""#, #""\u12"#, #""\"#,
    ])
    func aLoneSurrogateIsRefused(_ text: String) {
        #expect(throws: JSONError.self) { try JSON(parsing: Array(text.utf8)) }
    }

    @Test(arguments: [
        (#"\ud800"#, "\u{FFFD}"), (#"a\udc00b"#, "a\u{FFFD}b"), (#"\ud83d\ud83d\ude00"#, "\u{FFFD}😀"),
        (#"\ud800\n"#, "\u{FFFD}\n"), (#"\ud800\u0041"#, "\u{FFFD}A"), (#"\ude00\ud83d"#, "\u{FFFD}\u{FFFD}"),
    ])
    func aLoneSurrogateOfAnotherIsReplaced(_ text: String, _ expected: String) throws {
        var foreign = ForeignJSON()
        let json = try JSON(parsing: Array("[\"\(text)\"]".utf8), mending: &foreign)
        #expect(json.array == [.string(expected)])
        #expect(foreign.loneSurrogates == expected.unicodeScalars.count { $0 == "\u{FFFD}" })
        for rest in [#"\ud83d\"#, #"\ud83d\u12"#, #"\ud83d\x"#, #"\ud83"#] {
            #expect(throws: JSONError.self) { try JSON(parsing: Array("[\"\(rest)\"]".utf8), mending: &foreign) }
        }
    }

    @Test(arguments: [
        (#"{"a": 1, "b": [2], "a": 1}"#, #"{"a": 1, "b": [2]}"#, 1),
        (
            #"{"x": {"a": {"c": [1], "d": 2}, "a": {"d": 2, "c": [1]}, "a": {"c": [1], "d": 2}}}"#,
            #"{"x": {"a": {"c": [1], "d": 2}}}"#, 2
        ),
        (#"{"a": 1, "\u0061": 1}"#, #"{"a": 1}"#, 1),
        (#"[{"a": null, "a": null}, {"a": 1}]"#, #"[{"a": null}, {"a": 1}]"#, 1),
        (#"{"a": {"b": 1, "b": 1}, "a": {"b": 1}}"#, #"{"a": {"b": 1}}"#, 2),
    ])
    func aMemberThatOccursTwiceWithEqualValuesCountsOnce(_ text: String, _ expected: String, _ count: Int) throws {
        for repeated in ForeignJSON.RepeatedMember.allCases {
            var foreign = ForeignJSON(repeated: repeated)
            let json = try JSON(parsing: Array(text.utf8), mending: &foreign)
            #expect(json == (try JSON(parsing: Array(expected.utf8))))
            #expect(foreign.repeatedMembers == count)
        }
        let error = #expect(throws: JSONError.self) { try JSON(parsing: Array(text.utf8)) }
        #expect(error?.code == .duplicateName, "direct publishers are read strictly")
    }

    @Test func ofDifferentValuesTheLastCountsOnlyIfItIsAskedFor() throws {
        // More members than are moved to their places one by one.
        let many = (0..<40).map { "\"m\($0)\": \($0)" }.joined(separator: ", ")
        for text in [#"{"z": 0, "a": 1, "a": 2, "z": 0, "a": 3}"#, "{\(many), \"a\": 1, \"z\": 0, \"a\": 3}"] {
            var strict = ForeignJSON()
            let error = #expect(throws: JSONError.self) { try JSON(parsing: Array(text.utf8), mending: &strict) }
            #expect(error?.code == .duplicateName)
            #expect(error?.message == #"member "a" occurs twice in one object"#)
            #expect(strict.repeatedMembers == 0)
            var foreign = ForeignJSON(repeated: .last)
            let json = try JSON(parsing: Array(text.utf8), mending: &foreign)
            #expect(json.object?["a"] == 3)
            #expect(json.object?["z"] == 0)
            #expect(json.object?.members.count == (text.contains("m39") ? 42 : 2))
        }
    }

    @Test(arguments: [
        (#"{"id": 6120034418893, "t": "\ud83d"}"#, "6120034418893"), (#" {"a": {"id": 1}, "id" : "x" } "#, "x"),
        (#"{"id": 1, "b": 2, "b": 3, "id": 2}"#, "2"), (#"{"i\u0064": 7}"#, "7"),
        (#"{"id": "\u0061\ud83d"}"#, "a\u{FFFD}"),
        (#"{"x": "\"id\": 1, {[", "id": 12345678901234567890}"#, "12345678901234567890"),
        (#"{"x": nonsense, "id": 1, "y"#, "1"), ("\u{FEFF}{\"id\": 1}", "1"), (#"{"id": 1.50}"#, "1.50"),
        (#"{"x": 1}"#, nil), ("[1]", nil), ("", nil), ("{", nil), (#"{"id""#, nil), (#"{"id":"#, nil),
        (#"{"id": "x"#, nil),
        (#"{"id": {"id": 1}}"#, nil), (#"{"id": null}"#, nil), (#"{"\\"#, nil), (#"{"a": {"id": 1}}"#, nil),
    ])
    func aMemberIsFoundBesideAnyFault(_ text: String, _ found: String?) {
        #expect(JSONScan.text(at: ["id"], in: Array(text.utf8)) == found)
    }

    @Test(arguments: [
        (#"{"items": [{"id": "a"}, {"id": 2}]}"#, "0", "a"), (#"{"items":[ {"id": "a"} , {"id": 2}"#, "1", "2"),
        (#"{"items": [{"id": "a"}]}"#, "1", nil), (#"{"items": []}"#, "0", nil), (#"{"items": ["#, "0", nil),
        (#"{"items": {"0": {"id": "b"}}}"#, "0", "b"), (#"{"items": [{"id": "a"}]}"#, "x", nil),
        (#"{"items": [{"id": "a"}]}"#, "-1", nil), (#"{"items": [[1, 2], {"id": "c"}, "#, "1", "c"),
    ])
    func anElementIsFoundByItsPlace(_ text: String, _ place: String, _ found: String?) {
        #expect(JSONScan.text(at: ["items", place, "id"], in: Array(text.utf8)) == found)
    }

    /// A body that no parser takes still has its key.
    @Test func aMemberIsFoundBesideWhatIsTooDeepOrTooMuch() throws {
        let deep = String(repeating: "[", count: 100_000) + String(repeating: "]", count: 100_000)
        let much = "[" + String(repeating: "1,", count: JSON.entryLimit) + "1]"
        for value in [deep, much, String(repeating: "[", count: 100_000)] {
            let bytes = Array(#"{"data": {"object": {"id": "in_1"}}, "x": \#(value), "y": 1}"#.utf8)
            #expect(throws: JSONError.self) { try JSON(parsing: bytes) }
            #expect(JSONScan.text(at: ["data", "object", "id"], in: bytes) == "in_1")
        }
        let invalid = Array(#"{"x": ""#.utf8) + [0xFF, 0xC3] + Array(#"", "id": 5}"#.utf8)
        #expect(JSONScan.text(at: ["id"], in: invalid) == "5")
    }

    @Test(arguments: ["01", "-", "1.", ".5", "1e", "1e+", "+1", "0x1", "NaN", "Infinity", "--1", "1..2"])
    func anInvalidNumberIsRefused(_ text: String) {
        #expect(throws: JSONError.self) { try JSON(parsing: Array(text.utf8)) }
    }

    @Test func aNumberKeepsItsText() throws {
        let text = "[\(String(repeating: "9", count: 5000)),1e999999999,-0.10,1.0]"
        let json = try JSON(parsing: Array(text.utf8))
        #expect(json.text == text)
        #expect(json.array?[1].number?.double == .infinity)
        #expect(json.array?[0].integer == nil)
    }

    /// Strings are read eight bytes at a time, and what is ASCII is not checked again.
    @Test func textThatIsNotASCIIIsFoundAtEachPlace() throws {
        for length in 1...20 {
            for place in 0..<length {
                let (plain, rest) = (String(repeating: "a", count: length), length - place - 1)
                let text = String(repeating: "a", count: place) + "é" + String(repeating: "a", count: rest)
                let read = try #require(try JSON(parsing: Array("\"\(text)\"".utf8)).string)
                #expect(read == text && read.count == length && read.utf8.count == length + 1)
                var bytes = Array("\"\(plain)\"".utf8)
                bytes[1 + place] = 0x80
                #expect { try JSON(parsing: bytes) } throws: { ($0 as? JSONError)?.code == .invalidUTF8 }
            }
        }
    }

    @Test(arguments: [[0xFF], [0x22, 0xC3, 0x28, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22], [0xEF, 0xBB, 0xBF, 0x31]])
    func invalidUTF8OrAByteOrderMarkIsRefused(_ bytes: [UInt8]) {
        #expect(throws: JSONError.self) { try JSON(parsing: bytes) }
    }

    @Test func aDuplicateMemberNameIsRefused() {
        for (text, place) in [
            (#"{"a":1,"b":2,"\u0061":3}"#, 13), (#"[{"x":{"b":[{"b":1}], "c":{"b":2},"b" : 3 } }]"#, 34),
        ] {
            #expect { try JSON(parsing: Array(text.utf8)) } throws: {
                ($0 as? JSONError)?.code == .duplicateName && ($0 as? JSONError)?.offset == place
            }
        }
    }

    @Test func equalValuesHaveEqualBytes() throws {
        let composed = try JSON(parsing: Array("\"\u{E9}\"".utf8))
        let decomposed = try JSON(parsing: Array("\"e\u{301}\"".utf8))
        #expect(composed != decomposed)
        let one = try JSON(parsing: Array(#"{"b":1, "a":"x"}"#.utf8))
        let other = try JSON(parsing: Array(#"{"a":"\u0078","b":1}"#.utf8))
        #expect(one == other)
        #expect(one.serialized == other.serialized)
        #expect(one.hashValue == other.hashValue)
    }

    @Test func theLeastSizeIsExactWithoutEscapes() throws {
        for number in 1...5 {
            let order = try Examples.order(number)
            #expect(order.leastSize == order.serialized.count)
        }
        for json: JSON in [[], [:], .null, true, false, "", 12] { #expect(json.leastSize == json.serialized.count) }
    }

    /// Source: RFC 7396, appendix A
    @Test(arguments: [
        (#"{"a":"b"}"#, #"{"a":"c"}"#, #"{"a":"c"}"#), (#"{"a":"b"}"#, #"{"b":"c"}"#, #"{"a":"b","b":"c"}"#),
        (#"{"a":"b"}"#, #"{"a":null}"#, "{}"), (#"{"a":"b","b":"c"}"#, #"{"a":null}"#, #"{"b":"c"}"#),
        (#"{"a":["b"]}"#, #"{"a":"c"}"#, #"{"a":"c"}"#), (#"{"a":"c"}"#, #"{"a":["b"]}"#, #"{"a":["b"]}"#),
        (#"{"a":{"b":"c"}}"#, #"{"a":{"b":"d","c":null}}"#, #"{"a":{"b":"d"}}"#),
        (#"{"a":[{"b":"c"}]}"#, #"{"a":[1]}"#, #"{"a":[1]}"#), (#"{"e":null}"#, #"{"a":1}"#, #"{"a":1,"e":null}"#),
        (#"{"a":"foo"}"#, #"{"a":{"b":1,"c":null}}"#, #"{"a":{"b":1}}"#),
        ("{}", #"{"a":{"bb":{"ccc":null}}}"#, #"{"a":{"bb":{}}}"#),
    ])
    func aMergePatchIsThatOfRFC7396(_ target: String, _ patch: String, _ result: String) throws {
        let target = try #require(try JSON(parsing: Array(target.utf8)).object)
        let patch = try #require(try JSON(parsing: Array(patch.utf8)).object)
        #expect(JSON.object(target.merging(patch)).text == result)
    }

    /// `é` as one character, and as `e` with an accent: Swift compares them as equal.
    private static let (composed, decomposed) = ("caf\u{E9}", "cafe\u{301}")

    @Test func namesAreComparedByTheirBytes() throws {
        let (composed, decomposed) = (Self.composed, Self.decomposed)
        let one: JSON = 1
        #expect(composed == decomposed)
        let text = "{\"\(decomposed)\":1,\"\(composed)\":2}"
        let object = try #require(try JSON(parsing: Array(text.utf8)).object)
        #expect(object.members.count == 2)
        #expect(object[composed] == 2)
        #expect(object[decomposed] == 1)
        #expect(String(decoding: object.serialized, as: UTF8.self) == text, "sorted by bytes")
        #expect(JSONObject([(composed, one)]) != JSONObject([(decomposed, one)]))
        let merged = JSONObject([(composed, one)]).merging(JSONObject([(decomposed, one), (composed, .null)]))
        #expect(merged == JSONObject([(decomposed, one)]))
        #expect(ByteText(composed) != ByteText(decomposed))
        #expect(ByteText("a").hashValue == ByteText("a").hashValue)
    }

    @Test func identifiersAreComparedByTheirBytes() throws {
        let (composed, decomposed) = (Self.composed, Self.decomposed)
        func item(_ sku: String, _ quantity: Int64) -> JSON {
            ["sku": .string(sku), "title": "Café", "quantity": .integer(quantity)]
        }
        let items: JSON = [item(composed, 1), item(decomposed, 1)]
        #expect(IdentifiedElements.of(items, named: "lineItems")?.count == 2)
        var contributions = Contributions()
        try contributions.merge(["lineItems": items], of: "a", at: 1)
        try contributions.merge(["lineItems": [item(decomposed, 5)]], of: "b", at: 2)
        let made = contributions.composed { _ in [] }.document.members
        let shown = try #require(made["lineItems"]?.array)
        #expect(shown.map { $0.object?["quantity"] ?? .null } == [1, 5], "only one of the two was written again")
        let owned = try OwnedPaths([composed, decomposed], path: "$.owns")
        #expect(owned.paths.count == 2)
        #expect(owned.claim.members.count == 2)
    }
}
