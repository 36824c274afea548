import Model
import TestKit

/// The life of one order of the table as changes, and the expected final document.
///
/// The statuses of the table in Wallet's terms, as a retailer would map them. The last change of an order sets them:
///
/// | table | order | fulfillment | payment |
/// |---|---|---|---|
/// | `delivered` | `completed` | `delivered` | `paid` |
/// | `shipped` | `open` | `onTheWay` | `paid` |
/// | `invoiced`, `processing` | `open` | `processing` | `paid` once approved, else `pending` |
/// | `unavailable` | `open` | `issue` | as before |
/// | `canceled` | `cancelled` | `cancelled` | `refunded` once approved, else `voided` |
///
/// Before that: purchase → fulfillment `open`, approval → `processing`, hand-over to the carrier → `onTheWay`,
/// delivery → `delivered`. Data that the table does not have (line items, amounts, merchant) is derived
/// deterministically from the order's identifier.
struct OrderStory: Sendable {
    /// The events of the table, not always in chronological order.
    enum Moment: Int, Sendable, CaseIterable { case purchased, approved, handedOver, delivered }

    let order: OlistOrder
    /// The events that the table has, in chronological order; the purchase is first, since nothing can precede it.
    let moments: [(moment: Moment, time: Int64)]

    init(_ order: OlistOrder) {
        self.order = order
        let times: [(Moment, Int64?)] = [
            (.approved, order.approved), (.handedOver, order.handedOver), (.delivered, order.delivered),
        ]
        let later = times.compactMap { moment, time in time.map { (moment, max($0, order.purchased)) } }
            .sorted { ($0.1, $0.0.rawValue) < ($1.1, $1.0.rawValue) }
        self.moments = [(.purchased, order.purchased)] + later
    }

    /// One change with its time.
    struct Change: Sendable {
        let time: Int64
        let event: CloudEvent
    }

    /// Returns one change for each event.
    func changes(orderType: OrderTypeIdentifier) -> [Change] {
        self.moments.indices.map { index in
            let (moment, time) = self.moments[index]
            let (type, data) = self.change(index)
            let source = moment == .handedOver || moment == .delivered ? "/olist/carrier" : "/olist/orders"
            let event = CloudEvent(
                id: "\(self.order.identifier)-\(index)", source: source, type: type.rawValue,
                subject: "\(orderType)/\(self.order.identifier)", time: RFC3339.format(epochSeconds: time),
                sequence: String(index), data: data)
            return Change(time: time, event: event)
        }
    }

    /// Returns the change at an event: the whole document at the purchase, later only the members that differ. If only
    /// the fulfillment differs, it is an update of that.
    private func change(_ index: Int) -> (CloudEvent.ChangeType, JSON) {
        let now = self.document(upTo: index)
        guard index > 0 else { return (.replaced, .object(now)) }
        let before = self.document(upTo: index - 1)
        let differing = now.members.filter { before[$0.name] != $0.value }
        if differing.map(\.name) == ["fulfillments"], let parcel = now["fulfillments"]?.array?.first {
            return (.fulfillmentUpdated, parcel)
        }
        return (.patched, .object(JSONObject(differing.map { ($0.name, $0.value) })))
    }

    /// The expected final document, built from the row and not by folding.
    var expected: JSONObject { self.document(upTo: self.moments.count - 1) }

    private func document(upTo index: Int) -> JSONObject {
        let happened = Set(self.moments[...index].map(\.moment))
        let isLast = index == self.moments.count - 1
        let isCancelled = isLast && self.order.status == .canceled
        let isDelivered = isLast ? self.order.status == .delivered : happened.contains(.delivered)
        let invented = InventedOrder(self.order.identifier, customer: self.order.customer)
        return [
            "createdAt": .string(RFC3339.format(epochSeconds: self.order.purchased)),
            "orderNumber": .string(String(self.order.identifier.prefix(8)).uppercased()),
            "orderManagementURL": .string("https://market.example.com/orders/\(self.order.identifier)"),
            "status": isCancelled ? "cancelled" : isDelivered ? "completed" : "open",
            "merchant": InventedOrder.merchant,
            "customer": invented.customer,
            "lineItems": invented.lineItems,
            "payment": invented.payment(
                status: self.paymentStatus(happened, isCancelled: isCancelled),
                approvedAt: happened.contains(.approved)
                    ? self.order.approved.map { max($0, self.order.purchased) } : nil),
            "fulfillments": [self.parcel(happened, isLast: isLast)],
        ]
    }

    private func paymentStatus(_ happened: Set<Moment>, isCancelled: Bool) -> String {
        switch (happened.contains(.approved), isCancelled) {
        case (true, true): "refunded"
        case (true, false): "paid"
        case (false, true): "voided"
        case (false, false): "pending"
        }
    }

    private func parcel(_ happened: Set<Moment>, isLast: Bool) -> JSON {
        var parcel: JSONObject = [
            "fulfillmentType": "shipping", "fulfillmentIdentifier": "parcel-1",
            "status": .string(isLast ? self.lastParcelStatus : Self.parcelStatus(happened)),
        ]
        if let estimated = self.order.estimated {
            parcel["estimatedDeliveryAt"] = .string(RFC3339.format(epochSeconds: estimated))
        }
        if happened.contains(.handedOver), let time = self.order.handedOver {
            parcel["shippedAt"] = .string(RFC3339.format(epochSeconds: time))
            parcel["carrier"] = "Correio Exemplo"
            parcel["trackingNumber"] = .string("BR\(self.order.identifier.prefix(10).uppercased())")
        }
        if happened.contains(.delivered), let time = self.order.delivered {
            parcel["deliveredAt"] = .string(RFC3339.format(epochSeconds: time))
        }
        return .object(parcel)
    }

    private static func parcelStatus(_ happened: Set<Moment>) -> String {
        if happened.contains(.delivered) { return "delivered" }
        if happened.contains(.handedOver) { return "onTheWay" }
        return happened.contains(.approved) ? "processing" : "open"
    }

    private var lastParcelStatus: String {
        switch self.order.status {
        case .delivered: "delivered"
        case .shipped: "onTheWay"
        case .invoiced, .processing: "processing"
        case .unavailable: "issue"
        case .canceled: "cancelled"
        }
    }
}

/// Data of an order that the table lacks, invented from its identifier.
struct InventedOrder {
    private let items: [(title: String, image: String, cents: Int, quantity: Int)]
    private let shippingCents: Int
    let customer: JSON

    static let merchant: JSON = [
        "merchantIdentifier": "merchant.com.example.waybill", "displayName": "Mercado Exemplo",
        "url": "https://market.example.com/", "logo": "logo.png",
    ]

    private static let goods = [
        ("Luminária de mesa", "lamp.png", 8990), ("Manta de lã", "throw.png", 12950), ("Cafeteira", "lamp.png", 19900),
        ("Caneca", "throw.png", 2490), ("Relógio de parede", "lamp.png", 5990),
    ]
    private static let names = ["Ana", "Bruno", "Carla", "Davi", "Elisa", "Fábio", "Gabriela", "Hugo"]

    init(_ identifier: String, customer: String) {
        // FNV-1a of the identifier seeds the choice, so that it is the same everywhere.
        let seed = identifier.utf8.reduce(0xCBF2_9CE4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        var random = SeededGenerator(seed: seed)
        self.items = (0..<Int.random(in: 1...3, using: &random)).map { _ in
            let (title, image, cents) = Self.goods[Int.random(in: 0..<Self.goods.count, using: &random)]
            return (title, image, cents, Int.random(in: 1...3, using: &random))
        }
        self.shippingCents = Int.random(in: 0...4000, using: &random)
        let name = Self.names[Int.random(in: 0..<Self.names.count, using: &random)]
        self.customer = ["givenName": .string(name), "familyName": .string("C. \(customer.prefix(6))")]
    }

    var lineItems: JSON {
        .array(
            self.items.map { item in
                [
                    "title": .string(item.title), "quantity": .integer(Int64(item.quantity)),
                    "price": Self.amount(item.cents), "image": .string(item.image),
                ]
            })
    }

    func payment(status: String, approvedAt: Int64?) -> JSON {
        let goods = self.items.reduce(0) { $0 + $1.cents * $1.quantity }
        let total = Self.amount(goods + self.shippingCents)
        var payment: JSONObject = [
            "total": total, "status": .string(status),
            "summaryItems": [
                ["label": "Produtos", "value": Self.amount(goods)],
                ["label": "Frete", "value": Self.amount(self.shippingCents)],
            ],
        ]
        if let approvedAt {
            payment["transactions"] = [
                [
                    "amount": total, "createdAt": .string(RFC3339.format(epochSeconds: approvedAt)),
                    "paymentMethod": ["displayName": "Apple Pay"], "status": "completed", "transactionType": "purchase",
                ]
            ]
        }
        return .object(payment)
    }

    private static func amount(_ cents: Int) -> JSON {
        let rest = cents % 100
        return ["amount": .string("\(cents / 100).\(rest < 10 ? "0" : "")\(rest)"), "currency": "BRL"]
    }
}
