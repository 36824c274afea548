import TestKit
import Testing

@testable import Model

/// Changes of other systems with members that no order may have.
@Suite struct OmittedMemberTests {
    private let fold: OrderFold
    private let key: OrderKey

    init() throws {
        let order = try Examples.order(1)
        self.fold = Examples.fold(try Examples.rules(order))
        self.key = try Examples.key(order)
    }

    private func merged(_ data: JSONObject, owns: [String]? = nil, id: String = "1") throws -> OrderChange {
        OrderChange(
            key: self.key, source: "/shop", id: id, epochMilliseconds: 0,
            kind: .merged(data, owns: try owns.map { try OwnedPaths($0, path: "owns") }))
    }

    private func tolerating(_ change: OrderChange) -> (change: OrderChange, omitted: [OmittedMember]) {
        self.fold.tolerating(change, nowEpochSeconds: Examples.now)
    }

    /// A whole order with everything in which something can be wrong.
    private static let order: JSON = [
        "createdAt": "2025-03-05T16:02:11Z", "status": "open", "orderManagementURL": "https://shop.example/1",
        "orderNumber": "1", "customer": ["givenName": "Ana", "emailAddress": "ana@shop.example"],
        "merchant": ["displayName": "Shop", "merchantIdentifier": "shop", "url": "https://shop.example"],
        "lineItems": [
            [
                "sku": "A", "title": "Lamp", "quantity": 1, "image": "https://cdn.example/a.jpg",
                "price": ["amount": "5.00", "currency": "EUR"],
            ], ["sku": "B", "title": "Bulb", "quantity": 2],
        ],
        "payment": [
            "status": "paid", "total": ["amount": "5.00", "currency": "EUR"],
            "summaryItems": [["label": "Sum", "value": ["amount": "5.00", "currency": "EUR"]]],
        ],
        "fulfillments": [
            [
                "fulfillmentIdentifier": "f1", "fulfillmentType": "shipping", "status": "shipped",
                "trackingURL": "https://track.example/1", "shippedAt": "2025-03-05T16:02:11Z",
            ],
            [
                "fulfillmentIdentifier": "f2", "fulfillmentType": "pickup", "status": "open", "displayName": "Shop",
                "location": ["latitude": 1, "longitude": 2],
            ],
        ],
        "returns": [["returnIdentifier": "r1", "status": "open", "returnManagementURL": "https://shop.example/r"]],
    ]

    private static let transaction: JSON = [
        "amount": ["amount": "5.00", "currency": "EUR"], "createdAt": "2025-03-05T16:02:11Z",
        "paymentMethod": ["displayName": "Card"], "status": "completed", "transactionType": "purchase",
        "receipt": "receipt.pdf",
    ]

    private static let owns = ["status", "payment", "lineItems", "fulfillments", "returns", "customer", "orderNumber"]

    @Test func aValidChangeStaysAsItIs() throws {
        let change = try self.merged(try #require(Self.order.object), owns: Self.owns)
        let result = self.tolerating(change)
        #expect(result.change == change)
        #expect(result.omitted.isEmpty)
    }

    /// The last valid value stays, whatever the source owns; without one, the rest of the order is there.
    @Test(
        arguments: [
            ("orderNumber", 7, "orderNumber"), ("status", "lost", "status"), ("orderManagementURL", "ask us", nil),
            ("customer.emailAddress", "none", "customer.emailAddress"),
            ("merchant.url", "our shop", "merchant.url"), ("lineItems.0.image", "no picture/..", nil),
            ("lineItems.1.title", "", "lineItems.title"), ("lineItems.1.quantity", "two", "lineItems.quantity"),
            ("payment.status", "expired", "payment.status"), ("payment.status", nil, "payment.status"),
            ("fulfillments.0.trackingURL", "www.track.example/1", "fulfillments.trackingURL"),
            ("fulfillments.0.shippedAt", "soon", "fulfillments.shippedAt"),
            ("fulfillments.0.status", "lost", "fulfillments.status"),
            ("fulfillments.0.status", nil, "fulfillments.status"),
            ("fulfillments.1.location.latitude", 91, "fulfillments.location"),
            ("fulfillments.1.location.longitude", nil, "fulfillments.location"),
            ("returns.0.returnManagementURL", "n/a", "returns.returnManagementURL"),
            ("returns.0.status", "lost", "returns.status"),
        ] as [(String, JSON?, String?)])
    func theLastValidValueStays(_ path: String, _ value: JSON?, _ name: String?) throws {
        let whole = try #require(Self.order.object)
        let broken = Self.order.setting(value, path).setting("2", "statusDescription")
        let result = self.tolerating(
            try self.merged(try #require(broken.object), owns: Self.owns + ["statusDescription"], id: "2"))
        let names = path.split(separator: ".").filter { Int($0) == nil }.joined(separator: ".")
        #expect(result.omitted.map(\.name) == [name ?? names])

        let after = self.fold.fold(
            nil, changes: [(.at(1), try self.merged(whole, owns: Self.owns)), (.at(2), result.change)],
            nowEpochSeconds: Examples.now)
        #expect(after.outcomes == [.applied, .applied])
        #expect(after.state.map { .object($0.document.members) } == Self.order.setting("2", "statusDescription"))
        #expect(after.withheld.isEmpty)
        #expect(after.state?.contributions?.summaries.first?.keeps.count == 1)

        // The next event says it again: the order is as it was.
        let next = self.fold.fold(
            after.state, changes: [(.at(3), try self.merged(whole, owns: Self.owns, id: "3"))],
            nowEpochSeconds: Examples.now)
        #expect(next.outcomes == [.unchanged])
        #expect(next.state?.contributions?.summaries.first?.keeps == [])

        // Of a new order, its change waits at most: it is not refused for this.
        let first = self.fold.fold(nil, changes: [(.at(1), result.change)], nowEpochSeconds: Examples.now)
        guard case .refused(let fault)? = first.outcomes.first else { return }
        #expect(fault.code == .unknownOrder)
    }

    @Test func anEventWithoutAValidValueMakesTheOrder() throws {
        let broken = Self.order.setting("expired", "payment.status").setting("n/a", "fulfillments.0.trackingURL")
            .setting("lost", "fulfillments.1.status")
        let result = self.tolerating(try self.merged(try #require(broken.object), owns: Self.owns))
        #expect(result.omitted.count == 3)
        let first = self.fold.fold(nil, changes: [(.at(1), result.change)], nowEpochSeconds: Examples.now)
        #expect(first.outcomes == [.applied])
        let shown = Self.order.setting(nil, "payment").setting(nil, "fulfillments.0.trackingURL")
            .setting([try #require(Self.order[path: "fulfillments.0"])], "fulfillments")
            .setting(nil, "fulfillments.0.trackingURL")
        #expect(first.state.map { .object($0.document.members) } == shown)
        #expect(first.withheld.count == 2)
        // Another source's event is not at fault, and one of this source that says nothing of it neither.
        let more = OrderChange(key: self.key, source: "/shop", id: "2", kind: .merged(["orderNumber": "2"], owns: nil))
        let again = self.fold.fold(first.state, changes: [(.at(2), more)], nowEpochSeconds: Examples.now)
        #expect(again.outcomes == [.applied])
        #expect(again.state?.contributions?.summaries.first?.keeps.count == 3)
    }

    @Test func theDocumentBeforeHasTheLastValidValue() throws {
        let document = OrderDocument(members: try #require(Self.order.object))
        let before = OrderChange(key: self.key, source: "/shop", id: "0", kind: .replaced(document))
        let broken = Self.order.setting("expired", "payment.status").setting("n/a", "fulfillments.0.trackingURL")
        let change = self.tolerating(try self.merged(try #require(broken.object), owns: Self.owns)).change
        let after = self.fold.fold(nil, changes: [(.at(1), before), (.at(2), change)], nowEpochSeconds: Examples.now)
        #expect(after.state?.document == document)
    }

    /// An element that the event has no more goes, and so does a member that another element lacks.
    @Test func anOwnedArrayIsThatOfTheEventButForWhatItCouldNotSay() throws {
        let parcels: JSON = [
            "fulfillments": [
                [
                    "fulfillmentIdentifier": "f1", "fulfillmentType": "shipping", "status": "shipped",
                    "trackingURL": "https://track.example/1", "carrier": "UPS",
                ],
                [
                    "fulfillmentIdentifier": "f2", "fulfillmentType": "shipping", "status": "shipped",
                    "trackingURL": "https://track.example/2",
                ],
                ["fulfillmentIdentifier": "f3", "fulfillmentType": "shipping", "status": "shipped"],
            ]
        ]
        let whole = Self.order.setting(parcels[path: "fulfillments"], "fulfillments")
        let left: JSON = [
            [
                "fulfillmentIdentifier": "f2", "fulfillmentType": "shipping", "status": "delivered",
            ],
            [
                "fulfillmentIdentifier": "f1", "fulfillmentType": "shipping", "status": "delivered",
                "trackingURL": "see the mail",
            ],
        ]
        let result = self.tolerating(
            try self.merged(try #require(whole.setting(left, "fulfillments").object), owns: Self.owns, id: "2"))
        #expect(result.change.keeps.paths == [["fulfillments", "f1", "trackingURL"]])
        let after = self.fold.fold(
            nil,
            changes: [
                (.at(1), try self.merged(try #require(whole.object), owns: Self.owns)), (.at(2), result.change),
            ], nowEpochSeconds: Examples.now)
        #expect(
            after.state?.document.members["fulfillments"]
                == left.setting("https://track.example/1", "1.trackingURL"))
    }

    /// Elements without an identity are what the last event says.
    @Test func anArrayWithoutIdentifiersIsThatOfTheEvent() throws {
        let items: JSON = [["title": "Lamp", "quantity": 1, "image": "n/a/.."], ["title": "Bulb", "quantity": 1]]
        let data = try #require(Self.order.setting(items, "lineItems").object)
        let result = self.tolerating(try self.merged(data, owns: Self.owns))
        #expect(result.omitted.map(\.name) == ["lineItems.image"])
        #expect(result.change.keeps.paths.isEmpty)
        #expect(result.change.data?["lineItems"] == items.setting(nil, "0.image"))
        // One that no order may show takes the array with it, of which the last valid one stays.
        let untitled = try #require(Self.order.setting(items.setting("", "1.title"), "lineItems").object)
        let whole = self.tolerating(try self.merged(untitled, owns: Self.owns))
        #expect(whole.change.data?["lineItems"] == nil)
        #expect(whole.change.keeps.paths == [["lineItems"]])
    }

    @Test(
        arguments: [
            ("payment.total.amount", "12,50"), ("payment.total", nil), ("payment.total.currency", "euro"),
            ("payment", "paid"), ("payment.summaryItems.0.label", ""), ("payment.summaryItems.0.value.amount", "6.00"),
            ("payment.transactions.0.status", "lost"), ("lineItems.0.price.amount", "5,00"),
            ("lineItems.0.price.currency", "USD"), ("lineItems.0.price", "5.00"),
            ("fulfillments.0.fulfillmentIdentifier", nil), ("fulfillments.0.fulfillmentIdentifier", 7),
            ("fulfillments.0.fulfillmentType", "drone"), ("fulfillments.1.fulfillmentIdentifier", "f1"),
            ("merchant.merchantIdentifier", ""), ("shipping", "fast"), ("orderTypeIdentifier", "order.com.example.b"),
            ("createdAt", "2099-01-01T00:00:00Z"), ("authenticationToken", "short"),
        ] as [(String, JSON?)])
    func moneyIdentityAndUnknownMembersAreRefused(_ path: String, _ value: JSON?) throws {
        let broken = Self.order.setting([Self.transaction], "payment.transactions").setting(value, path)
        let result = self.tolerating(try self.merged(try #require(broken.object), owns: Self.owns))
        let outcome = self.fold.fold(nil, changes: [(.at(1), result.change)], nowEpochSeconds: Examples.now)
        guard case .refused(let fault)? = outcome.outcomes.first, fault.code != .unknownOrder else {
            Issue.record("\(path): \(outcome.outcomes)")
            return
        }
        #expect(result.omitted.isEmpty)
    }

    @Test func linksThatAreCertainAreMended() throws {
        let broken = Self.order.setting("https://track.example/nr=1 2", "fulfillments.0.trackingURL")
            .setting("//cdn.example/größe.jpg", "lineItems.0.image")
            .setting("//shop.example/1", "orderManagementURL")
        let result = self.tolerating(try self.merged(try #require(broken.object), owns: Self.owns))
        #expect(result.omitted.isEmpty)
        #expect(
            result.change.data.map { .object($0) }
                == broken.setting("https://track.example/nr=1%202", "fulfillments.0.trackingURL")
                .setting("https://cdn.example/gr%C3%B6%C3%9Fe.jpg", "lineItems.0.image")
                .setting("https://shop.example/1", "orderManagementURL"))
    }

    @Test func updatesAndWholeOrdersGoWithoutIt() throws {
        let update = OrderChange(
            key: self.key, source: "/c", id: "1",
            kind: .fulfillmentUpdated(
                identifier: "f1",
                [
                    "fulfillmentIdentifier": "f1", "status": "lost", "carrier": .null, "shippedAt": "soon",
                    "lineItems": [["title": "Lamp", "quantity": 1, "image": "//cdn.example/a b.png"]],
                ]))
        let updated = self.tolerating(update)
        #expect(Set(updated.omitted.map(\.name)) == ["fulfillments.status", "fulfillments.shippedAt"])
        #expect(
            updated.change.data == [
                "fulfillmentIdentifier": "f1", "carrier": .null,
                "lineItems": [["title": "Lamp", "quantity": 1, "image": "https://cdn.example/a%20b.png"]],
            ])
        let patch = OrderChange(
            key: self.key, source: "/c", id: "1", kind: .patched(["status": "lost", "orderNumber": .null]))
        #expect(self.tolerating(patch).change.data == ["orderNumber": .null])
        let broken = Self.order.setting("lost", "fulfillments.0.status").setting("n/a", "returns.0.returnManagementURL")
        let document = OrderDocument(members: try #require(broken.object))
        let whole = self.tolerating(OrderChange(key: self.key, source: "/c", id: "1", kind: .replaced(document)))
        #expect(Set(whole.omitted.map(\.name)) == ["fulfillments", "returns.returnManagementURL"])
        let result = self.fold.fold(nil, changes: [(.at(1), whole.change)], nowEpochSeconds: Examples.now)
        #expect(result.outcomes == [.applied])
        #expect(result.state?.document.members["fulfillments"]?.array?.count == 1)
    }

    /// More than a dead letter would name, and more than are kept.
    @Test func manyFaultsAreLeftOut() throws {
        let items = (0..<500).map { index -> JSON in
            ["sku": .string("\(index)"), "title": "Lamp", "quantity": 1, "image": "/broken"]
        }
        let data = try #require(Self.order.setting(.array(items), "lineItems").object)
        let result = self.tolerating(try self.merged(data, owns: Self.owns))
        #expect(result.omitted.count == 500)
        #expect(result.change.keeps.paths.count == KeptMembers.limit)
        let outcome = self.fold.fold(nil, changes: [(.at(1), result.change)], nowEpochSeconds: Examples.now)
        #expect(outcome.outcomes == [.applied])
    }

    @Test func aPartRemembersWhatItsSourceCouldNotSay() throws {
        let broken = Self.order.setting("n/a", "fulfillments.0.trackingURL")
        let change = self.tolerating(try self.merged(try #require(broken.object), owns: Self.owns)).change
        let state = try #require(
            self.fold.fold(nil, changes: [(.at(1), change)], nowEpochSeconds: Examples.now).state)
        let read = try OrderState(
            key: state.key, document: state.documentBytes, token: state.token.rawValue, version: state.version,
            modifiedEpochSeconds: state.modifiedEpochSeconds, sources: state.sourcesBytes, recent: state.recentBytes,
            contributions: state.contributionsBytes)
        #expect(read == state)
        #expect(read.contributions?.summaries.first?.keeps == ["fulfillments.f1.trackingURL"])
    }

    @Test func aPublisherIsToldTheLinkToWrite() throws {
        let order = try Examples.order(1).setting("https://shop.example/a b?key=s ecret", "orderManagementURL")
        let found = OrderValidator.violations(in: order, allowUnknownMembers: false, nowEpochSeconds: nil)
        #expect(found.map(\.description).first?.hasSuffix("; write https://shop.example/a%20b?…") == true)
        #expect(found.first?.withoutValue.contains("shop.example") == false)
    }
}
