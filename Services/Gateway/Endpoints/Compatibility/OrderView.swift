import Model

/// An order as the small JSON view of payment providers shows it. A pure mapping.
///
/// Wallet has other words for the state of an order; this view has four: `open`, `in_progress`, `fulfilled`,
/// `cancelled`.
struct OrderView: Hashable, Sendable {
    let json: JSON

    /// - Parameter order: the complete order.json.
    init(_ order: JSONObject) {
        var view: JSONObject = [
            "status": .string(Self.status(order)), "statusDescription": Self.text(order["statusDescription"]),
            "fulfillments": .array((order["fulfillments"]?.array ?? []).compactMap(\.object).map(Self.fulfillment)),
            "lineItems": .array((order["lineItems"]?.array ?? []).compactMap(\.object).map(Self.lineItem)),
        ]
        for name in ["orderIdentifier", "orderTypeIdentifier", "updatedAt"] { view[name] = order[name] }
        var merchant: JSONObject = [:]
        for name in ["merchantIdentifier", "displayName", "url"] { merchant[name] = order["merchant"]?.object?[name] }
        view["merchant"] = .object(merchant)
        if let total = order["payment"]?.object?["total"]?.object {
            view["total"] = .object(Self.price(total).merging(["label": "Total"]))
        }
        self.json = ["order": .object(view)]
    }

    private static func status(_ order: JSONObject) -> String {
        switch order["status"]?.string {
        case "cancelled": return "cancelled"
        case "completed": return "fulfilled"
        default:
            let fulfillments = (order["fulfillments"]?.array ?? []).compactMap(\.object)
            return fulfillments.allSatisfy { $0["status"]?.string == "open" } ? "open" : "in_progress"
        }
    }

    private static func fulfillment(_ fulfillment: JSONObject) -> JSON {
        let status =
            switch fulfillment["status"]?.string {
            case "open": "open"
            case "delivered", "pickedUp": "fulfilled"
            case "cancelled": "cancelled"
            default: "in_progress"
            }
        return [
            "fulfillmentIdentifier": Self.text(fulfillment["fulfillmentIdentifier"]), "status": .string(status),
            "statusDescription": Self.text(fulfillment["statusDescription"]),
            "trackingNumber": Self.text(fulfillment["trackingNumber"]),
            "trackingUrl": Self.text(fulfillment["trackingURL"]),
        ]
    }

    private static func lineItem(_ item: JSONObject) -> JSON {
        let subtitle = item["subtitle"]?.string.map { " (\($0))" } ?? ""
        var view: JSONObject = ["label": .string((item["title"]?.string ?? "") + subtitle)]
        for name in ["sku", "quantity"] { view[name] = item[name] }
        return .object(view.merging(Self.price(item["price"]?.object ?? [:])))
    }

    private static func price(_ amount: JSONObject) -> JSONObject {
        var price: JSONObject = [:]
        price["price"] = amount["amount"]
        price["currencyCode"] = amount["currency"]
        return price
    }

    private static func text(_ value: JSON?) -> JSON { .string(value?.string ?? "") }
}
