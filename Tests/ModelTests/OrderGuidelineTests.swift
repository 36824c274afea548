import Foundation
import TestKit
import Testing

@testable import Model

/// The guidelines, each with an order that keeps it and one that does not.
@Suite struct OrderGuidelineTests {
    private struct Case {
        let guideline: OrderGuideline
        let path: String
        /// Merged into a good order: the bad one, and one that keeps the guideline in another way.
        let bad: JSONObject
        let good: [JSONObject]
    }

    /// Keeps all guidelines.
    private static let order: JSONObject = [
        "status": "open", "orderManagementURL": "https://shop.example/orders/1",
        "merchant": [
            "displayName": "Shop", "emailAddress": "help@shop.example", "phoneNumber": "+49301234567",
            "logo": "logo.png",
        ],
        "lineItems": [["title": "Lamp", "quantity": 1, "image": "lamp.png"]],
        "fulfillments": [Self.shipment([:])],
    ]

    private static func shipment(_ members: JSONObject) -> JSON {
        let shipment: JSONObject = [
            "fulfillmentType": "shipping", "status": "onTheWay", "carrier": "Parcel Post", "trackingNumber": "1",
            "trackingURL": "https://post.example/1", "estimatedDeliveryAt": "2026-01-02T12:00:00Z",
        ]
        return .object(shipment.merging(members))
    }

    private static func pickup(_ members: JSONObject) -> JSON {
        let pickup: JSONObject = ["fulfillmentType": "pickup", "displayName": "Shop", "status": "processing"]
        return .object(pickup.merging(members))
    }

    private static func shipments(_ members: JSONObject) -> JSONObject { ["fulfillments": [Self.shipment(members)]] }

    private static let cases = [
        Case(
            guideline: .carrier, path: "$.fulfillments[0]", bad: Self.shipments(["carrier": .null]),
            good: [
                Self.shipments(["carrier": .null, "shippingType": "delivery"]),
                Self.shipments(["carrier": .null, "status": "shipped", "trackingNumber": .null, "trackingURL": .null]),
            ]),
        Case(
            guideline: .carrier, path: "$.fulfillments[0]",
            bad: Self.shipments(["carrier": .null, "status": "shipped", "trackingURL": .null]), good: []),
        Case(
            guideline: .trackingLink, path: "$.fulfillments[0]", bad: Self.shipments(["trackingURL": .null]),
            good: [Self.shipments(["trackingURL": .null, "status": "delivered"])]),
        Case(
            guideline: .expectedDate, path: "$.fulfillments[0]", bad: Self.shipments(["estimatedDeliveryAt": .null]),
            good: [
                Self.shipments(["estimatedDeliveryAt": .null, "statusDescription": "Check back tomorrow."]),
                Self.shipments(["estimatedDeliveryAt": .null, "status": "delivered"]),
            ]),
        Case(
            guideline: .expectedDate, path: "$.fulfillments[0]", bad: ["fulfillments": [Self.pickup([:])]],
            good: [
                ["fulfillments": [Self.pickup(["pickupAt": "2026-01-02T12:00:00Z"])]],
                ["fulfillments": [Self.pickup(["status": "readyForPickup"])]],
                ["fulfillments": [Self.pickup([:])], "status": "completed"],
            ]),
        Case(
            guideline: .explanation, path: "$.fulfillments[0]", bad: Self.shipments(["status": "issue"]),
            good: [Self.shipments(["status": "issue", "statusDescription": "The address is not complete."])]),
        Case(
            guideline: .explanation, path: "$", bad: ["status": "cancelled"],
            good: [["status": "cancelled", "statusDescription": "Sold out. You were not charged."]]),
        Case(
            guideline: .explanation, path: "$.returns[0]", bad: ["returns": [["status": "cancelled"]]],
            good: [["returns": [["status": "completed"]]]]),
        Case(
            guideline: .title, path: "$.lineItems[0].title", bad: ["lineItems": [["title": Self.title(61)]]],
            good: [["lineItems": [["title": Self.title(60)]]], ["lineItems": [["title": Self.title(60, of: "語")]]]]),
        Case(
            guideline: .contacts, path: "$.merchant", bad: ["merchant": ["phoneNumber": .null]],
            good: [
                ["merchant": ["phoneNumber": .null, "contactURL": "https://shop.example/help"]], ["merchant": .null],
            ]),
        Case(
            guideline: .managementLink, path: "$.orderManagementURL",
            bad: ["orderManagementURL": "https://shop.example/"],
            good: [["orderManagementURL": "HTTPS://shop.example/?order=1"]]),
        Case(
            guideline: .managementLink, path: "$.orderManagementURL",
            bad: ["orderManagementURL": "http://shop.example/orders/1"], good: []),
    ]

    private static func title(_ count: Int, of character: Character = "x") -> JSON {
        .string(String(repeating: character, count: count))
    }

    @Test func anOrderKeepsAllOrSaysWhere() {
        #expect(OrderGuideline.findings(in: .object(Self.order)).isEmpty)
        for example in Self.cases {
            let bad = JSON.object(Self.order.merging(example.bad))
            let found = OrderGuideline.findings(in: bad)
            #expect(found == [OrderGuideline.Finding(guideline: example.guideline, path: example.path)], "\(bad.text)")
            for good in example.good.map({ JSON.object(Self.order.merging($0)) }) {
                #expect(OrderGuideline.findings(in: good).isEmpty, "\(good.text)")
            }
        }
        let judged = Set(Self.cases.map(\.guideline)).union([.pictureSize])
        #expect(judged == Set(OrderGuideline.allCases))
    }

    @Test func aPictureIsLargeEnough() {
        func places(_ sides: [String: Int]) -> [String] {
            OrderGuideline.findings(in: .object(Self.order)) { sides[$0] }.filter { $0.guideline == .pictureSize }.map(
                \.path)
        }
        #expect(places(["lamp.png": 300, "logo.png": 600]).isEmpty)
        #expect(places(["lamp.png": 299]) == ["$.lineItems[0].image"])
        #expect(places(["logo.png": 64]) == ["$.merchant.logo"])
    }

    /// The examples are what publishers start from. A merchant's other contacts come from the brand.
    @Test(arguments: 1...5) func examplesKeepThem(_ number: Int) throws {
        let found = OrderGuideline.findings(in: try Examples.order(number)).filter { $0.guideline != .contacts }
        #expect(found.isEmpty, "\(found)")
    }

    @Test func theDocumentHasEach() throws {
        let document = Repository.root.appending(path: "Shared/Model/Documentation.docc/WalletOrders.md")
        let text = try String(contentsOf: document, encoding: .utf8)
        for guideline in OrderGuideline.allCases {
            #expect(text.contains("\n| \(guideline.rawValue) | `\(guideline.code)` | "), "\(guideline)")
        }
    }

    @Test func somethingElseIsJudgedToo() {
        for json: JSON in [.null, "order", [], [:], ["fulfillments": "f", "returns": [1], "lineItems": [[1]]]] {
            #expect(OrderGuideline.findings(in: json).isEmpty)
        }
    }
}
