import Model
import Testing

@testable import Devkit

@Suite struct OrderStoryTests {
    static let purchased: Int64 = 1_500_000_000

    static func order(
        _ status: OlistOrder.Status, approved: Int64? = nil, handedOver: Int64? = nil, delivered: Int64? = nil
    ) -> OlistOrder {
        OlistOrder(
            identifier: "o-1", customer: "c-1", status: status, purchased: Self.purchased,
            approved: approved.map { Self.purchased + $0 }, handedOver: handedOver.map { Self.purchased + $0 },
            delivered: delivered.map { Self.purchased + $0 }, estimated: Self.purchased + 864_000)
    }

    @Test func eachTableTimeBecomesOneChangeInAscendingOrder() {
        for order in OlistTable.generate(200, seed: 1) + Orders.wild(800, seed: 2) {
            let changes = OrderStory(order).changes(orderType: Orders.type)
            let times = [order.approved, order.handedOver, order.delivered].compactMap(\.self)
            #expect(changes.count == 1 + times.count)
            #expect(changes.map(\.time) == [order.purchased] + times.map { max($0, order.purchased) }.sorted())
            #expect(Set(changes.map(\.event.id)).count == changes.count)
            #expect(changes.map(\.event.sequence) == changes.indices.map { "\($0)" })
            #expect(changes.map(\.event.time) == changes.map { RFC3339.format(epochSeconds: $0.time) })
            #expect(changes.allSatisfy { $0.event.subject == "order.com.example.shop/\(order.identifier)" })
        }
    }

    /// The table in the documentation of `OrderStory`.
    @Test(arguments: [
        (order(.delivered, approved: 1, handedOver: 2, delivered: 3), "completed", "delivered", "paid"),
        (order(.shipped, approved: 1, handedOver: 2), "open", "onTheWay", "paid"),
        (order(.invoiced, approved: 1), "open", "processing", "paid"),
        (order(.processing, approved: 1), "open", "processing", "paid"),
        (order(.processing), "open", "processing", "pending"),
        (order(.unavailable, approved: 1), "open", "issue", "paid"),
        (order(.unavailable), "open", "issue", "pending"),
        (order(.canceled, approved: 1), "cancelled", "cancelled", "refunded"),
        (order(.canceled), "cancelled", "cancelled", "voided"),
        // Canceled in transit: the earlier events remain in the order.
        (order(.canceled, approved: 1, handedOver: 2), "cancelled", "cancelled", "refunded"),
    ])
    func eachTableStatusMapsToTheDocumentedWalletStatus(
        _ order: OlistOrder, _ status: String, _ parcel: String, _ payment: String
    ) {
        let document = OrderStory(order).expected
        #expect(document["status"]?.string == status)
        #expect(document["payment"]?.object?["status"]?.string == payment)
        let first = document["fulfillments"]?.array?.first?.object
        #expect(first?["status"]?.string == parcel)
        #expect((first?["shippedAt"] != nil) == (order.handedOver != nil))
        #expect((first?["deliveredAt"] != nil) == (order.delivered != nil))
        #expect(first?["estimatedDeliveryAt"] != nil)
    }

    @Test func aParcelProgressesFromOpenToDelivered() throws {
        let story = OrderStory(Self.order(.delivered, approved: 1, handedOver: 2, delivered: 3))
        var state: OrderState?
        var seen: [String?] = []
        for (offset, change) in story.changes(orderType: Orders.type).enumerated() {
            state = try Self.fold(state, [change], from: offset).state
            let order = state?.document.members
            seen.append(order?["fulfillments"]?.array?.first?.object?["status"]?.string)
        }
        #expect(seen == ["open", "processing", "onTheWay", "delivered"])
    }

    /// The document that the story builds from the row, against the document that Model folds from the story's changes.
    @Test(arguments: [OlistTable.generate(100, seed: 3), Orders.wild(400, seed: 4)])
    func theChangesFoldedAreTheExpectedDocument(_ orders: [OlistOrder]) throws {
        for (number, order) in orders.enumerated() {
            let story = OrderStory(order)
            let changes = story.changes(orderType: Orders.type)
            let whole = try Self.fold(nil, changes)
            #expect(whole.effect == .changed)
            #expect(!whole.outcomes.contains { if case .refused = $0 { true } else { false } }, "\(order)")
            #expect(whole.state?.document.members == story.expected, "\(order)")
            // Folding one by one gives the same result; testing every seventh order, of each status, is enough.
            guard number.isMultiple(of: 7) else { continue }
            var state: OrderState?
            for (offset, change) in changes.enumerated() { state = try Self.fold(state, [change], from: offset).state }
            #expect(state?.document == whole.state?.document)
        }
    }

    /// Folds changes that are encoded as in a replay, in alternating modes.
    static func fold(
        _ state: OrderState?, _ changes: [OrderStory.Change], from first: Int = 0
    ) throws -> FoldResult {
        let decoded = try changes.enumerated().map { index, change in
            let offset = first + index
            let message = change.event.message(topic: "t", mode: offset % 2 == 0 ? .structured : .binary)
            let position = ChangePosition(partition: 0, offset: Int64(offset), timestampMilliseconds: 1)
            return (position, try message.decoded())
        }
        return Orders.fold.fold(state, changes: decoded, nowEpochSeconds: Orders.now)
    }
}
