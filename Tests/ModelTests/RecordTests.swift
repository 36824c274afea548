import TestKit
import Testing

@testable import Model

@Suite struct RecordTests {
    static let content = String(repeating: "0a", count: 16)

    @Test(arguments: 1...5)
    func anOrderRecordIsReadBack(_ number: Int) throws {
        let state = try Examples.state(number)
        let record = OrderRecord(state, content: number == 1 ? nil : Self.content)
        let back = try OrderRecord.decode(record.encoded)
        #expect(back == record)
        #expect(back.state(key: state.key) == state)
        let later = try JSON(parsing: record.encoded).setting(["x": 1], "laterMember")
        #expect(try OrderRecord.decode(later.serialized) == record)
    }

    @Test(arguments: 1...5)
    func anOrderRecordIsSortedAndHoldsTheStoredDocument(_ number: Int) throws {
        let order = try Examples.order(number)
        var document = OrderDocument(members: try #require(order.object))
        document.keepSerialized()
        #expect(document.serialized == order.serialized)
        let state = OrderState(
            key: try Examples.key(order), document: document, token: try AuthenticationToken("0123456789abcdef"),
            version: 3, modifiedEpochSeconds: Examples.now)
        let encoded = OrderRecord(state, content: Self.content).encoded
        let json = try JSON(parsing: encoded)
        #expect(json.serialized == encoded)
        #expect(json.object?["document"]?.serialized == state.documentBytes)
    }

    @Test func aDocumentForgetsItsTextWhenItChanges() {
        var document = OrderDocument(members: ["status": "open"])
        document.keepSerialized()
        let kept = document
        document.members["status"] = "completed"
        #expect(document.serialized == Array(#"{"status":"completed"}"#.utf8))
        #expect(kept != document)
        #expect(kept == OrderDocument(members: ["status": "open"]))
    }

    @Test func aBrokenOrderRecordIsRefusedWithItsPath() throws {
        let json = try JSON(parsing: OrderRecord(try Examples.state(1), content: Self.content).encoded)
        for (path, value): (String, JSON?) in [
            ("format", nil), ("format", 2), ("document", nil), ("document", []), ("token", "short"), ("token", 5),
            ("version", 0), ("version", "1"),
            ("version", 9_007_199_254_740_993), ("modified", -1), ("modified", 253_402_300_800), ("recent", "12"),
            ("recent", .string(String(repeating: "g", count: 16))),
            ("recent", .string(String(repeating: "0", count: 33 * 16))), ("sources", nil), ("sources.partitions", 1),
            ("sources.partitions.0", [1, 2]), ("sources.partitions.0", [2_147_483_648, 1, 1]),
            ("sources.sequences", [["a", "x"]]), ("sources.sequences", [["a"]]), ("content", .null),
            ("content", "0A"), ("content", .string(String(repeating: "A", count: 32))), ("content", 1),
        ] {
            let error = #expect(throws: RecordError.self, "\(path)") {
                try OrderRecord.decode(json.setting(value, path).serialized)
            }
            #expect(error?.message.contains("short") == false)
        }
        let bytes = json.serialized
        for length in bytes.indices {
            #expect(throws: RecordError.self) { try OrderRecord.decode(Array(bytes[..<length])) }
        }
    }

    @Test func aRegistrationIsReadBack() throws {
        let record = RegistrationRecord(
            pushToken: try PushToken("00ff"), registeredEpochMilliseconds: 1_767_268_800_123)
        #expect(record.encoded == Array(#"{"format":1,"pushToken":"00ff","registered":1767268800123}"#.utf8))
        #expect(try RegistrationRecord.decode(record.encoded) == record)
        let later = Array(#"{"format":1,"pushToken":"00ff","registered":1767268800123,"later":[]}"#.utf8)
        #expect(try RegistrationRecord.decode(later) == record)
        for text in [
            "", "[]", "{}", #"{"format":1,"pushToken":"xyz","registered":1}"#, #"{"format":1,"pushToken":"00ff"}"#,
            #"{"format":1,"pushToken":"00ff","registered":-1}"#,
            #"{"format":2,"pushToken":"00ff","registered":1}"#, #"{"pushToken":"00ff","registered":1}"#,
            #"{"format":1,"pushToken":"00ff","registered":1.5}"#,
            #"{"format":1,"pushToken":5,"registered":1}"#,
            #"{"format":1,"pushToken":"00ff","registered":99999999999999999999}"#,
        ] {
            let error = #expect(throws: RecordError.self) { try RegistrationRecord.decode(Array(text.utf8)) }
            #expect(error?.message.contains("xyz") == false)
        }
    }

    @Test func aTombstoneHasNoDocument() throws {
        let state = OrderState(
            key: try OrderKey("a.b/1"), document: .empty, token: try AuthenticationToken("0123456789abcdef"),
            version: 3,
            modifiedEpochSeconds: 5, isRemoved: true)
        #expect(state.documentBytes.isEmpty)
        let back = try OrderState(
            key: state.key, document: [], token: state.token.rawValue, version: 3, modifiedEpochSeconds: 5,
            sources: state.sourcesBytes, recent: state.recentBytes)
        #expect(back == state)
        for (document, token, version, sources, recent): ([UInt8], String, Int64, [UInt8], [UInt8]) in [
            (Array("[]".utf8), "0123456789abcdef", 3, state.sourcesBytes, []),
            (Array("{".utf8), "0123456789abcdef", 3, state.sourcesBytes, []), ([], "short", 3, state.sourcesBytes, []),
            ([], "0123456789abcdef", 0, state.sourcesBytes, []), ([], "0123456789abcdef", 3, [], []),
            ([], "0123456789abcdef", 3, state.sourcesBytes, [0x30]),
        ] {
            #expect(throws: RecordError.self) {
                try OrderState(
                    key: state.key, document: document, token: token, version: version, modifiedEpochSeconds: 5,
                    sources: sources, recent: recent)
            }
        }
    }

    @Test func positionsAndRecentChangesAreBounded() throws {
        var positions = AppliedPositions()
        var recent = RecentChanges()
        for number in 0..<100 {
            positions.advance(to: ChangePosition(partition: Int32(number), offset: 1, timestampMilliseconds: 1))
            positions.apply(source: "s\(number)", sequence: "\(number)")
            recent.append(source: "s", id: "\(number)")
        }
        #expect(positions.position(inPartition: 83) == nil)
        #expect(positions.position(inPartition: 84) != nil)
        #expect(!positions.isOutOfSequence(source: "s83", sequence: "1"))
        #expect(positions.isOutOfSequence(source: "s84", sequence: "1"))
        #expect(recent.encoded.count == 32 * 16)
        #expect(!recent.contains(source: "s", id: "67"))
        #expect(recent.contains(source: "s", id: "68"))
        #expect(try AppliedPositions(decoding: positions.encoded) == positions)
        #expect(try RecentChanges(decoding: recent.encoded) == recent)
    }

    @Test func sourceAndIdentifierAreHashedSeparately() {
        var recent = RecentChanges()
        recent.append(source: "ab", id: "c")
        #expect(!recent.contains(source: "a", id: "bc"))
        // The published test vector of FNV-1a: the hash of one zero byte.
        var empty = RecentChanges()
        empty.append(source: "", id: "")
        #expect(empty.text == "af63bd4c8601b7df")
    }

    @Test func theTopicsHaveTheirPrefix() {
        #expect(Topics().orderChanges == "waybill.order-changes")
        #expect(Topics(prefix: "t.").deadLetters == "t.dead-letters")
    }
}
