import TestKit
import Testing

@testable import Model

/// Orders rebuilt from the text of their records equal those built from the values.
@Suite struct OrderRecordTextTests {
    private static func rules(_ type: OrderTypeIdentifier) -> [BrandRules] {
        [
            BrandRules(orderType: type, webServiceURL: "https://wallet.example.com/a\"b\\"),
            BrandRules(
                orderType: type, merchant: ["displayName": "Größe", "url": "https://brand.example/"],
                returnInfo: ["returnDeadline": "2026-01-01T00:00:00Z"], changeNotifications: .disabledIfAppInstalled,
                webServiceURL: "https://wallet.example.com/"),
        ]
    }

    /// Members before, between and after those that Waybill adds, and members that it replaces or leaves alone.
    private static let documents: [JSONObject] = [
        [:],
        [
            "webServiceURL": .null, "a": "{\"b\":[\"}\",\"\\\\\"]}",
            "zz": [[], [:], [1, .number(JSONNumber(checked: "-2.5")), true, .null]],
        ],
        [
            "webServiceURL": "https://other.example/", "authenticationToken": "x", "orderNumber": "1",
            "merchant": ["displayName": "Own", "logo": "logo.png"], "schemaVersion": 1, "returnInfo": [:],
            "changeNotifications": "enabled",
        ],
        ["payment": ["transactions": [["amount": 1]]], "status": "open"],
        ["payment": ["status": "paid", "transactions": []], "updatedAt": "2025-01-01T00:00:00.25Z"],
        ["payment": 5, "schemaVersion": "2"],
        [
            "createdAt": "2025-03-05T16:02:11.123456Z",
            "fulfillments": [
                ["shippedAt": "2025-03-05T16:02:11.5+01:00"], ["shippedAt": "2025-03-05T16:02:11Z"],
                ["deliveredAt": "2025-03-05T16:02:11.123-08:00", "notes": "a, b: \"c\" \n größer"],
            ],
        ],
    ]

    private func states() throws -> [(OrderState, BrandRules)] {
        var states = try (1...5).map { (try Examples.state($0), try Examples.rules(try Examples.order($0))) }
        var positions = AppliedPositions()
        positions.advance(to: .at(7))
        positions.apply(source: "/oms", sequence: "12")
        let type = try OrderTypeIdentifier("order.com.example.shop")
        for document in Self.documents {
            for rules in Self.rules(type) {
                var recent = RecentChanges()
                recent.append(source: "/oms", id: "\(states.count)")
                states.append(
                    (
                        OrderState(
                            key: OrderKey(orderType: type, order: try OrderIdentifier("o-1")),
                            document: OrderDocument(members: document),
                            token: try AuthenticationToken("0123456789abcdef"), version: 7,
                            modifiedEpochSeconds: Examples.now, positions: positions, recent: recent), rules
                    ))
            }
        }
        return states
    }

    @Test func theTextGivesTheSameOrderAsTheValues() throws {
        for (state, rules) in try self.states() {
            let record = OrderRecord(state, package: RecordTests.package, seal: "AB-_")
            let text = try OrderRecordText(record.encoded)
            #expect(text.version == state.version)
            #expect(text.modifiedEpochSeconds == state.modifiedEpochSeconds)
            #expect(text.seal == "AB-_")
            #expect(text.assets == RecordTests.package.assets)
            #expect(try text.record() == record)
            let order = try #require(text.orderJSON(key: state.key, rules: rules))
            #expect(
                String(decoding: order, as: UTF8.self)
                    == String(decoding: state.orderJSON(rules: rules).serialized, as: UTF8.self))
            #expect(try #require(text.fields(key: state.key)) == OrderFields(state))
        }
    }

    @Test func theTextOfARecordKeepsItsContributions() throws {
        var state = try Examples.state(1)
        state.contributions = Contributions(before: state.document)
        let text = try OrderRecordText(OrderRecord(state, package: RecordTests.package).encoded)
        #expect(try #require(text.fields(key: state.key)) == OrderFields(state))
        #expect(text.seal == nil)
    }

    @Test func anUnusualRecordTextIsDecodedAsValues() throws {
        let state = try Examples.state(1)
        let record = OrderRecord(state, package: RecordTests.package, seal: "AAAA")
        let spaced = Array(" ".utf8) + record.encoded
        let text = try OrderRecordText(spaced)
        #expect(text.version == state.version)
        #expect(text.orderJSON(key: state.key, rules: try Examples.rules(try Examples.order(1))) == nil)
        #expect(text.fields(key: state.key) == nil)
        #expect(try text.record() == record)
        let later = try JSON(parsing: record.encoded).setting(["x": 1], "laterMember")
        #expect(try OrderRecordText(later.serialized).fields(key: state.key) == OrderFields(state))
        let token = try JSON(parsing: record.encoded).setting("0123456789\\abcdef", "token").serialized
        #expect(try OrderRecordText(token).fields(key: state.key) == nil)
    }

    @Test func brokenRecordsAreRefused() throws {
        let json = try JSON(parsing: OrderRecord(try Examples.state(1), package: RecordTests.package).encoded)
        for (path, value): (String, JSON?) in [
            ("format", nil), ("format", 2), ("document", nil), ("document", []), ("version", 0), ("version", "1"),
            ("modified", -1), ("sources", nil),
            ("token", nil), ("recent", nil),
        ] {
            #expect(throws: RecordError.self, "\(path)") {
                try OrderRecordText(json.setting(value, path).serialized)
            }
        }
        let key = try Examples.key(try Examples.order(1))
        for (path, value): (String, JSON) in [
            ("recent", "12"), ("sources", [:]), ("token", "short"), ("contributions", [:]),
        ] {
            let text = try OrderRecordText(json.setting(value, path).serialized)
            #expect(text.fields(key: key) == nil, "\(path)")
            #expect(throws: RecordError.self, "\(path)") { try text.record() }
        }
    }

    /// No damage to a record stops the process.
    @Test func aDamagedRecordNeverTraps() throws {
        let state = try Examples.state(5)
        let rules = try Examples.rules(try Examples.order(5))
        let encoded = OrderRecord(state, package: RecordTests.package, seal: "AAAA").encoded
        var texts = (0..<encoded.count).map { Array(encoded[..<$0]) }
        for index in encoded.indices {
            for byte in [UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "}"), UInt8(ascii: ","), 0xFF] {
                var text = encoded
                text[index] = byte
                texts.append(text)
            }
        }
        let right = state.orderJSON(rules: rules).serialized
        var wrong = 0
        for text in texts {
            guard let text = try? OrderRecordText(text) else { continue }
            _ = text.fields(key: state.key)
            if let order = text.orderJSON(key: state.key, rules: rules), order != right { wrong += 1 }
        }
        #expect(wrong > 0, "a digest tells these from the right one")
    }
}
