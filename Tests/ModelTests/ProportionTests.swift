import TestKit
import Testing

@testable import Model

/// Work and memory in proportion to what arrives: eight times as many take eight times as long, and a little for
/// sorting, where the square would be 64 times.
@Suite(.serialized) struct ProportionTests {
    /// Between both.
    private static let most = 20.0

    /// The last one first.
    private static func names(_ count: Int, _ prefix: String = "n") -> [String] {
        (0..<count).reversed().map { "\(prefix)\(100_000 + $0)" }
    }

    @Test func membersAreSortedOnce() {
        let growth = ProcessorTime.growth(from: 4000) {
            Self.names($0).map { ($0, JSON.null) }
        } work: {
            #expect(JSONObject($0).members.count == $0.count)
        }
        #expect(growth < Self.most)
    }

    @Test(arguments: [3, 100]) func ofTwoMembersWithTheSameNameTheLaterOneWins(_ count: Int) {
        let members = (0..<3 * count).map { ("\($0 % count)", JSON.integer(Int64($0))) }
        let object = JSONObject(members)
        #expect(object.members.count == count)
        #expect((0..<count).allSatisfy { object["\($0)"] == .integer(Int64(2 * count + $0)) })
        #expect(object == JSONObject(members.suffix(count)))
    }

    /// `é` is one scalar or two, and Swift's strings are equal either way, with one hash for all.
    @Test func namesThatLookAlikeHaveDifferentHashes() {
        func name(_ number: Int) -> ByteText {
            ByteText((0..<16).map { number >> $0 & 1 == 0 ? "\u{E9}" : "e\u{301}" }.joined())
        }
        #expect(name(0).text == name(1).text)
        let growth = ProcessorTime.growth(from: 300) {
            (0..<$0).map(name)
        } work: {
            #expect(Set($0).count == $0.count)
        }
        #expect(growth < Self.most)
    }

    /// An element for each stock keeping unit; without a title none is shown.
    private static func items(_ count: Int, _ more: JSONObject = [:]) -> JSONObject {
        ["lineItems": .array(self.names(count).map { .object(JSONObject([("sku", .string($0))]).merging(more)) })]
    }

    /// The parts of a source after its second change, in which each element is written at a moment of its own.
    private static func parts(_ count: Int) throws -> Contributions {
        var parts = Contributions()
        try parts.merge(["lineItems": [["sku": "first", "title": "One"]]], of: "/a", at: 1)
        try parts.merge(self.items(count), of: "/a", at: 2)
        return parts
    }

    @Test func momentsAreWrittenInProportionAndReadBack() throws {
        let growth = try ProcessorTime.growth(from: 3000, prepare: Self.parts) { parts in
            let moments = try #require(parts.part(of: "/a")?.moments)
            #expect(moments.json.array?.count == 2)
        }
        #expect(growth < Self.most)
        let parts = try Self.parts(100)
        #expect(try Contributions.read(parts.json(version: 1), version: 1, path: "$") == parts)
    }

    /// The state of an order is written with each of its changes, whatever they are about.
    @Test func laterChangesOfALargePartCostInProportion() throws {
        let growth = try ProcessorTime.growth(from: 6000, prepare: Self.parts) { parts in
            var next = parts
            try next.patch(["statusDescription": "later"], of: "/a", at: 3)
            #expect(next.json(version: 2).object?.members.count == 2)
        }
        #expect(growth < Self.most)
    }

    @Test func elementsThatAreNotShownAreListedInProportion() throws {
        let growth = try ProcessorTime.growth(from: 250, prepare: Self.parts) { parts in
            #expect(parts.composed { _ in [] }.withheld.count >= 250)
        }
        #expect(growth < Self.most)
    }

    @Test func contributedMembersAreMergedInOnePass() throws {
        func filled(_ names: [String]) -> JSONObject { JSONObject(names.map { ($0, true) }) }
        let growth = try ProcessorTime.growth(from: 5000) {
            (old: filled(Self.names($0, "z")), sent: filled(Self.names($0, "a")))
        } work: { old, sent in
            var parts = Contributions()
            try parts.merge(old, of: "/a", at: 1)
            try parts.merge(sent, of: "/a", owns: OwnedPaths(["z100000"], path: "owns"), at: 2)
            #expect(parts.part(of: "/a")?.document.members.count == 2 * old.members.count - 1, "one is owned, not sent")
        }
        #expect(growth < Self.most)
    }

    /// Each shape of a text that takes much memory for its bytes, up to 1 MiB.
    private static let shapes = [
        (String(repeating: "[", count: 31) + "1" + String(repeating: "]", count: 31)), "[1]", "[]", "{}", "1",
        #"{"a":1}"#, #"{"a":1,"b":1}"#, #"{"a":1,"b":1,"c":1}"#, #"{"a":{"a":{"a":{"a":1}}}}"#,
        #""0123456789abcdef""#, #"{"0123456789abcdef":"0123456789abcdef"}"#, "1234567890123456",
    ]

    /// The bytes of a block of memory: a header of 32, in steps of 16 with eight for the allocator.
    private static func block(_ content: Int) -> Int { (32 + content + 8 + 15) & ~15 }

    /// The bytes of memory of a text: one that has up to 15 bytes is in its value.
    private static func memory(of text: String) -> Int { text.utf8.count <= 15 ? 0 : self.block(text.utf8.count + 1) }

    /// The bytes of memory of a value, besides its own place.
    private static func memory(of json: JSON) -> Int {
        switch json {
        case .null, .bool: return 0
        case .number(let number): return self.memory(of: number.text)
        case .string(let text): return self.memory(of: text)
        case .array(let elements):
            if elements.isEmpty { return 0 }
            return elements.reduce(self.block(elements.capacity * MemoryLayout<JSON>.stride)) {
                $0 + self.memory(of: $1)
            }
        case .object(let object):
            if object.isEmpty { return 0 }
            return object.members.reduce(
                self.block(object.members.capacity * MemoryLayout<JSONObject.Member>.stride)
            ) {
                $0 + self.memory(of: $1.name) + self.memory(of: $1.value)
            }
        }
    }

    /// Source: SECURITY.md, "Promises"
    @Test(arguments: shapes) func aTextTakesAtMost24TimesItsBytes(_ shape: String) throws {
        let entries = try JSON(parsing: Array(shape.utf8)).entryCount
        let count = min((JSON.entryLimit - 1) / entries, (OrderChange.valueLimit - 2) / (shape.utf8.count + 1))
        let json = try JSON(parsing: Array("[\(repeatElement(shape, count: count).joined(separator: ","))]".utf8))
        #expect(json.entryCount == 1 + count * entries)
        #expect(Self.memory(of: json) < 24 * OrderChange.valueLimit)
    }

    @Test func aTextWithTooManyEntriesIsRefused() throws {
        func text(_ count: Int) -> [UInt8] {
            Array("[\(repeatElement("1", count: count).joined(separator: ","))]".utf8)
        }
        #expect(try JSON(parsing: text(JSON.entryLimit - 1)).entryCount == JSON.entryLimit)
        let error = #expect(throws: JSONError.self) { try JSON(parsing: text(JSON.entryLimit)) }
        #expect(error?.code == .tooManyEntries)
        #expect(error?.message == "more than 131072 values in one JSON text")
        let own = try JSON(parsing: text(JSON.entryLimit), entries: .max)
        #expect(own.entryCount == JSON.entryLimit + 1)
        // A name that occurs twice is looked for again, which is no entry.
        let twice = Array(#"{"a":[1,2,3],"a":1}"#.utf8)
        let second = #expect(throws: JSONError.self) { try JSON(parsing: twice, entries: 6) }
        #expect(second?.code == .duplicateName)
    }

    @Test func aListNamesTwentyAndSaysHowManyMore() {
        let names = (1...70_000).map { "\($0)" }
        #expect(names.prefix(20).listed() == names.prefix(20).joined(separator: ", "))
        #expect(names.listed().hasSuffix(", 19, 20, and 69980 more"))
        #expect(names.listed(most: 2, separator: "; ") == "1; 2; and 69998 more")
        #expect([String(repeating: "x", count: 1 << 20)].listed().utf8.count < 500)
        #expect([String]().listed().isEmpty)
    }
}
