import Model

/// An order as structured data for the mail that confirms it: JSON-LD of schema.org, which programs for mail read.
///
/// A pure mapping of an order document; what the document lacks is left out. The customer is, too: the mail is theirs.
/// Source: schema.org `Order`, `ParcelDelivery`; Gmail, "Order" and "Parcel delivery" markup
struct OrderMarkup: Hashable, Sendable {
    let json: JSON

    /// - Parameters:
    ///   - order: the document.
    ///   - merchant: the merchant of an order that names none.
    init(_ order: JSONObject, merchant: JSONObject?) {
        let merchant = order["merchant"]?.object ?? merchant ?? [:]
        let seller = Self.thing("Organization", ["name": merchant["displayName"], "url": merchant["url"]])
        let address = order["orderManagementURL"]
        var items: [JSON] = []
        for item in (order["lineItems"]?.array ?? []).compactMap(\.object) {
            let product = Self.thing(
                "Product", ["name": item["title"], "sku": item["sku"], "description": item["subtitle"]])
            let quantity = item["quantity"].map { Self.thing("QuantitativeValue", ["value": $0]) }
            let price = item["price"]?.object
            items.append(
                Self.thing(
                    "Offer",
                    [
                        "itemOffered": product, "eligibleQuantity": quantity, "price": price?["amount"],
                        "priceCurrency": price?["currency"],
                    ]))
        }
        let fulfillments = (order["fulfillments"]?.array ?? []).compactMap(\.object)
        let total = order["payment"]?.object?["total"]?.object
        let markup = Self.thing(
            "Order",
            [
                "@context": "https://schema.org", "acceptedOffer": items.isEmpty ? nil : .array(items),
                "merchant": seller, "orderNumber": order["orderNumber"], "orderDate": order["createdAt"],
                "orderStatus": .string("https://schema.org/\(Self.status(order, fulfillments))"),
                "price": total?["amount"], "priceCurrency": total?["currency"], "url": address,
                "potentialAction": address.map { Self.thing("ViewAction", ["target": $0]) },
            ])
        let parcels = fulfillments.filter { $0["fulfillmentType"] == "shipping" }.map { Self.parcel($0, of: markup) }
        self.json = parcels.isEmpty ? markup : .array([markup] + parcels)
    }

    /// Makes the delivery of one parcel, which refers to its order.
    private static func parcel(_ fulfillment: JSONObject, of order: JSON) -> JSON {
        let carrier = fulfillment["carrier"].map { Self.thing("Organization", ["name": $0]) }
        let number = order.object?["orderNumber"]
        return Self.thing(
            "ParcelDelivery",
            [
                "@context": "https://schema.org", "carrier": carrier, "trackingNumber": fulfillment["trackingNumber"],
                "trackingUrl": fulfillment["trackingURL"],
                "expectedArrivalUntil": fulfillment["estimatedDeliveryAt"],
                "partOfOrder": Self.thing(
                    "Order", ["orderNumber": number, "merchant": order.object?["merchant"]]),
            ])
    }

    /// Returns the member of `OrderStatus` for an order.
    private static func status(_ order: JSONObject, _ fulfillments: [JSONObject]) -> String {
        switch order["status"]?.string {
        case "cancelled": return "OrderCancelled"
        case "completed": return "OrderDelivered"
        default: break
        }
        let statuses = Set(fulfillments.compactMap { $0["status"]?.string })
        if statuses.contains("issue") { return "OrderProblem" }
        if statuses.contains("readyForPickup") { return "OrderPickupAvailable" }
        return statuses.isDisjoint(with: ["shipped", "onTheWay", "outForDelivery"])
            ? "OrderProcessing" : "OrderInTransit"
    }

    private static func thing(_ type: String, _ members: [String: JSON?]) -> JSON {
        var object: JSONObject = ["@type": .string(type)]
        for (name, value) in members { if let value { object[name] = value } }
        return .object(object)
    }
}
