import Foundation
import Kafka
import Model
import TestKit
import Testing

@testable import Packager

/// Three topics of a retailer, by the example sources.
@Suite struct SourcesOfOneOrderTests {
    /// Seven events of one order: two of the shop, two of its fulfillment, three of the carrier.
    private static func changes() async throws -> [OrderChange] {
        let directory = Repository.root.appending(path: "compose/connect/sources").path()
        func changes(_ name: String, _ files: [String], _ minutes: [Int64]) async throws -> [OrderChange] {
            let folder = "\(directory)/\(name)"
            let source = try Source.read(folder: folder, name: name)
            let tests = try SourceTest.all(of: folder)
            var named: [OrderChange] = []
            for (file, minute) in zip(files, minutes) {
                var test = try #require(tests.first { $0.name == "\(file).json" }?.content.object)
                var record = try #require(test["record"]?.object)
                record["time"] = .string(RFC3339.format(epochSeconds: 1_768_000_000 + minute * 60))
                test["record"] = .object(record)
                let outcome = await SourceTest(name: file, content: .object(test)).outcome(source, NearMapper())
                guard case .mapped(let changes)? = outcome else {
                    Issue.record("\(name) \(file): \(outcome.debugDescription)")
                    return []
                }
                named += try changes.map { try Self.named("\(name) \(file)", $0) }
            }
            return named
        }
        return try await changes("shopify-orders", ["pending", "paid"], [0, 1])
            + changes("shopify-fulfillments", ["shipped", "in-transit"], [2, 3])
            + changes("easypost", ["created", "in-transit", "delivered"], [4, 5, 6])
    }

    @Test func everyInterleavingGivesTheSameOrder() async throws {
        let changes = try await Self.changes()
        #expect(changes.count == 7)
        let rules = BrandRules(
            orderType: changes[0].key.orderType,
            merchant: ["displayName": "Shop", "merchantIdentifier": "shop", "url": "https://example.com"],
            webServiceURL: "https://example.com")
        let fold = OrderFold(rules: rules) { _ in AuthenticationToken(derived: String(repeating: "0", count: 32)) }
        var documents: Set<JSON> = []
        var count = 0
        // A topic keeps the sequence of its own events.
        let orders = Self.permutations(Array(changes.indices)).filter { order in
            [0..<2, 2..<4, 4..<7].allSatisfy { events in order.filter(events.contains) == Array(events) }
        }
        for order in orders {
            let positioned = order.enumerated().map { offset, index in
                (
                    ChangePosition(partition: 0, offset: Int64(offset), timestampMilliseconds: Int64(offset)),
                    changes[index]
                )
            }
            let result = fold.fold(nil, changes: positioned, nowEpochSeconds: 1_768_100_000)
            documents.insert(.object(try #require(result.state?.document).members))
            count += 1
        }
        #expect(count == 210)
        #expect(documents.count == 1)
        let document = try #require(documents.first?.object)
        #expect(changes.allSatisfy { "\($0.key)" == "order.com.example.shop/820982911946154508" })
        #expect(document["payment"]?.object?["total"] == ["amount": "208.95", "currency": "USD"])
        let shipment = document["fulfillments"]?.array?.first?.object
        #expect(shipment?["status"] == "delivered")
        #expect(shipment?["deliveredAt"] == "2026-01-08T15:30:00Z")
        #expect(shipment?["trackingNumber"] == "1Z2345", "written last: repeating a value does not renew it")
        #expect(!Self.hasFloat(.object(document)))
    }

    /// The events of a provider, whatever their sequence, of an order that the shop sent with a pending payment.
    @Test(arguments: [
        ("adyen", ["declined", "authorised", "captured", "refund-of-all"]),
        ("stripe", ["attempt-failed", "reserved", "captured-in-part", "refunded-twice-in-part"]),
    ])
    func aPaymentEndsAlikeInAnySequence(_ name: String, _ files: [String]) async throws {
        let folder = Repository.root.appending(path: "compose/connect/sources/\(name)").path()
        let source = try Source.read(folder: folder, name: name)
        let tests = try SourceTest.all(of: folder)
        let key = "order.com.example.shop/4711"
        let event: JSONObject = [
            "specversion": "1.0", "type": "waybill.order.merged", "source": "/shop", "id": "1", "subject": .string(key),
            "time": "2026-01-07T08:00:00Z",
            "data": [
                "owns": ["status", "payment.total"], "createdAt": "2026-01-07T08:00:00Z", "status": "open",
                "orderManagementURL": "https://shop.example/4711",
                "payment": ["total": ["amount": "29.90", "currency": "EUR"], "status": "pending"],
            ],
        ]
        let shop = try OrderChange.decode(key: Array(key.utf8), event: event, value: event.serialized, headers: [])
        var changes = [shop]
        for file in files {
            let test = try #require(tests.first { $0.name == "\(file).json" })
            let outcome = try #require(await test.outcome(source, NearMapper()))
            guard case .mapped(let mapped) = outcome else { throw SourceError("\(file): \(outcome)") }
            changes.append(try Self.named(file, try #require(mapped.first)))
        }
        #expect(Set(changes.map(\.key)).count == 1)
        let rules = BrandRules(
            orderType: shop.key.orderType,
            merchant: ["displayName": "Shop", "merchantIdentifier": "shop", "url": "https://example.com"],
            webServiceURL: "https://example.com")
        let fold = OrderFold(rules: rules) { _ in AuthenticationToken(derived: String(repeating: "0", count: 32)) }
        for order in Self.permutations(Array(changes.indices)) {
            let positioned = order.enumerated().map { offset, index in
                (
                    ChangePosition(partition: 0, offset: Int64(offset), timestampMilliseconds: Int64(offset)),
                    changes[index]
                )
            }
            let state = try #require(fold.fold(nil, changes: positioned, nowEpochSeconds: 1_768_100_000).state)
            let payment = state.document.members["payment"]?.object
            #expect(payment?["status"] == "refunded", "\(order.map { (["shop"] + files)[$0] })")
            #expect(payment?["total"] == ["amount": "29.90", "currency": "EUR"])
        }
    }

    /// Returns a change under an identifier of its own: events of tests may share one.
    private static func named(_ id: String, _ change: SourceMapping.Change) throws -> OrderChange {
        var event = try #require(try JSON(parsing: change.message.value ?? []).object)
        event["id"] = .string(id)
        return try OrderChange.decode(
            key: change.message.key ?? [], event: event, value: event.serialized, headers: [])
    }

    private static func permutations(_ items: [Int]) -> [[Int]] {
        guard let last = items.last else { return [[]] }
        return self.permutations(Array(items.dropLast())).flatMap { rest in
            (0...rest.count).map { place in
                var order = rest
                order.insert(last, at: place)
                return order
            }
        }
    }

    private static func hasFloat(_ value: JSON) -> Bool {
        switch value {
        case .number: value.integer == nil
        case .array(let elements): elements.contains { self.hasFloat($0) }
        case .object(let object): object.members.contains { self.hasFloat($0.value) }
        case .null, .bool, .string: false
        }
    }
}
