import Foundation
import Kafka
import Lua
import Model
import TestKit
import Testing

@testable import Packager

/// Three topics of a retailer, by the example sources.
@Suite struct SourcesOfOneOrderTests {
    /// Seven events of one order: two of the shop, two of its fulfillment, three of the carrier.
    private static func changes() throws -> [OrderChange] {
        let directory = Repository.root.appending(path: "compose/sources").path()
        // What the tracker knows, and whose the shop said that it is.
        let parcel = try #require(Parcel(carrier: "UPS", number: "EZ4000004000"))
        let owner = ParcelOwner(order: "820982911946154508", fulfillment: "255858046")
        func changes(_ name: String, _ files: [String], _ minutes: [Int64]) throws -> [OrderChange] {
            let source = try Source.load(folder: "\(directory)/\(name)", name: name)
            return try zip(files, minutes).enumerated().flatMap { (index, pair) -> [OrderChange] in
                let bytes = try Data(contentsOf: URL(filePath: "\(directory)/\(name)/tests/\(pair.0).json"))
                let test = try JSON(parsing: Array(bytes))
                let value = try #require(test.object?["record"]?.object?["value"])
                let record = KafkaRecord(
                    topic: source.topics[0], partition: 0, offset: Int64(index),
                    timestampMilliseconds: 1_768_000_000_000 + pair.1 * 60_000, key: nil, value: value.serialized)
                let mapping = SourceMapping(
                    record, source, topic: "changes", parcels: [parcel: owner], nowEpochSeconds: 1_768_100_000)
                guard case .mapped(let changes) = mapping.outcome else {
                    Issue.record("\(name) \(pair.0): \(mapping.outcome)")
                    return []
                }
                return changes.map(\.change)
            }
        }
        return try changes("shopify-orders", ["pending", "paid"], [0, 1])
            + changes("shopify-fulfillments", ["shipped", "in-transit"], [2, 3])
            + changes("easypost", ["created", "in-transit", "delivered"], [4, 5, 6])
    }

    @Test func everyInterleavingGivesTheSameOrder() throws {
        let changes = try Self.changes()
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
        #expect(shipment?["trackingNumber"] == "EZ4000004000")
        #expect(!Self.hasFloat(.object(document)))
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
