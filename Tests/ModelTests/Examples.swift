import Foundation
import TestKit
import Testing

@testable import Model

/// The five example orders, and values that tests derive from them.
enum Examples {
    static let names = [
        "01-shipping-multi-fulfillment", "02-pickup-barcode", "03-return-refund", "04-static-receipt-minimal",
        "05-schema2-order-provider",
    ]

    /// Noon on a day later than all examples.
    static let now: Int64 = 1_767_268_800

    static var schemas: String {
        Repository.root.appending(path: "Shared/Model/Schemas").path()
    }

    static func bytes(_ file: String) throws -> [UInt8] {
        Array(try Data(contentsOf: URL(fileURLWithPath: "\(self.schemas)/\(file)")))
    }

    /// - Parameter number: 1 to 5.
    static func order(_ number: Int) throws -> JSON {
        try JSON(parsing: try self.bytes("examples/\(self.names[number - 1]).order.json"))
    }

    static func key(_ order: JSON) throws -> OrderKey {
        let object = try #require(order.object)
        return OrderKey(
            orderType: try OrderTypeIdentifier(object["orderTypeIdentifier"]?.string ?? ""),
            order: try OrderIdentifier(object["orderIdentifier"]?.string ?? ""))
    }

    static func rules(_ order: JSON) throws -> BrandRules {
        BrandRules(
            orderType: try self.key(order).orderType,
            merchant: ["displayName": "Brand", "merchantIdentifier": "m", "url": "https://brand.example/"],
            webServiceURL: order.object?["webServiceURL"]?.string ?? "https://wallet.example.com/")
    }

    static func fold(_ rules: BrandRules) -> OrderFold {
        let derived = try? AuthenticationToken("derived-0123456789")
        return OrderFold(rules: rules) { key in
            // A mistake in a test would crash here; the text above has 18 plain characters.
            guard let derived else { preconditionFailure("no token for \(key)") }
            return derived
        }
    }

    /// Returns the state of an example after it is published.
    static func state(_ number: Int, now: Int64 = Examples.now) throws -> OrderState {
        let order = try self.order(number)
        let change = OrderChange(
            key: try self.key(order), source: "/oms", id: "first",
            kind: .replaced(OrderDocument(members: try #require(order.object))))
        let result = self.fold(try self.rules(order)).fold(nil, changes: [(.at(0), change)], nowEpochSeconds: now)
        #expect(result.effect == .changed)
        return try #require(result.state)
    }
}

extension ChangePosition {
    static func at(_ offset: Int64, timestamp: Int64? = nil) -> ChangePosition {
        ChangePosition(partition: 3, offset: offset, timestampMilliseconds: timestamp ?? 1000 + offset)
    }
}
