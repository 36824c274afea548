import TestKit
import Testing

@testable import Model

/// Orders that several sources write: the rules of `Contributions`.
@Suite struct MergedOrderTests {
    private let rules: BrandRules
    private let key: OrderKey
    /// Example 1 as sent by a source that knows everything except the shipments.
    private let base: JSONObject

    init() throws {
        let order = try Examples.order(1)
        self.rules = try Examples.rules(order)
        self.key = try Examples.key(order)
        self.base = try #require(
            order.setting(nil, "fulfillments").setting(nil, "returns").setting(nil, "statusDescription").object)
    }

    private func change(
        _ source: String, _ data: JSONObject, owns: [String]? = nil, at second: Int64 = 0, id: String? = nil
    ) throws -> OrderChange {
        OrderChange(
            key: self.key, source: source, id: id ?? "\(second) \(JSON.object(data).text)",
            epochMilliseconds: 1000 * second,
            kind: .merged(data, owns: try owns.map { try OwnedPaths($0, path: "owns") }))
    }

    private func fold(_ state: OrderState?, _ changes: OrderChange..., from offset: Int64 = 1) -> FoldResult {
        let numbered = changes.enumerated().map { (ChangePosition.at(offset + Int64($0)), $1) }
        return Examples.fold(self.rules).fold(state, changes: numbered, nowEpochSeconds: Examples.now)
    }

    private func code(_ outcome: ChangeOutcome?) -> ChangeFault.Code? {
        guard case .refused(let fault)? = outcome else { return nil }
        return fault.code
    }

    private static let shipment: JSONObject = [
        "fulfillments": [
            ["fulfillmentIdentifier": "f1", "fulfillmentType": "shipping", "status": "processing", "carrier": "DHL"]
        ]
    ]

    @Test func aMergedDocumentMakesAnOrderAndAPartOfOneDoesNot() throws {
        let alone = self.fold(nil, try self.change("/wms", Self.shipment))
        #expect(self.code(alone.outcomes.first) == .unknownOrder)
        #expect(alone.state == nil)
        let whole = self.fold(nil, try self.change("/oms", self.base))
        #expect(whole.effect == .changed)
        #expect(whole.outcomes == [.applied])
        var wrong = self.base
        wrong["status"] = "shipped"
        #expect(self.code(self.fold(nil, try self.change("/oms", wrong)).outcomes.first) == .invalidOrder)
    }

    @Test func aChangeBeforeItsOrderIsAppliedOnceTheOrderComes() throws {
        let result = self.fold(
            nil, try self.change("/wms", Self.shipment, at: 1), try self.change("/oms", self.base, at: 2))
        #expect(result.outcomes == [.applied, .applied])
        #expect(result.effect == .changed)
        #expect(result.state?.document.members["fulfillments"]?.array?.count == 1)
        // The same applies to a replacement, unless its own source sent the earlier change.
        for (source, expected): (String, ChangeOutcome) in [
            ("/wms", .applied), ("/oms", .skipped(.outOfSequence)),
        ] {
            let update = OrderChange(
                key: self.key, source: source, id: "early", kind: .patched(["statusDescription": "early"]))
            let replaced = OrderChange(
                key: self.key, source: "/oms", id: "whole", kind: .replaced(OrderDocument(members: self.base)))
            #expect(self.fold(nil, update, replaced).outcomes == [expected, .applied])
        }
    }

    /// A change with a lower number is late: it takes effect before those with higher ones, whichever comes first.
    @Test func changesThatWaitForTheirOrderTakeEffectInTheSequenceOfTheirSource() throws {
        func update(_ sequence: String, _ status: JSON) -> OrderChange {
            OrderChange(
                key: self.key, source: "/wms", id: sequence, sequence: sequence,
                kind: .merged(
                    [
                        "fulfillments": [
                            ["fulfillmentIdentifier": "f1", "fulfillmentType": "shipping", "status": status]
                        ]
                    ], owns: nil))
        }
        let (late, latest) = (update("9", "onTheWay"), update("10", "delivered"))
        let order = try self.change("/oms", self.base)
        for changes in [[latest, late, order], [late, latest, order], [latest, order, late], [order, latest, late]] {
            let state = Examples.fold(self.rules).fold(
                nil, changes: changes.enumerated().map { (.at(Int64($0)), $1) }, nowEpochSeconds: Examples.now
            ).state
            let members = try #require(state?.document.members)
            #expect(JSON.object(members)[path: "fulfillments.0.status"] == "delivered", "\(changes.map(\.id))")
            #expect(state?.positions.isOutOfSequence(source: "/wms", sequence: "9") == true)
        }
    }

    @Test func aReplacementThatIsLateDoesNotUndoALaterChangeOfItsSource() throws {
        let update = OrderChange(
            key: self.key, source: "/oms", id: "update", sequence: "5", kind: .patched(["statusDescription": "later"]))
        let whole = OrderChange(
            key: self.key, source: "/oms", id: "whole", sequence: "4",
            kind: .replaced(OrderDocument(members: self.base)))
        let result = self.fold(nil, update, whole)
        #expect(result.outcomes == [.applied, .applied])
        #expect(result.state?.document.members["statusDescription"] == "later")
    }

    @Test func twoPartsMakeAnOrderTogether() throws {
        var head = self.base
        head["status"] = nil
        let result = self.fold(
            nil, try self.change("/oms", head), try self.change("/status", ["status": "completed"]))
        #expect(result.outcomes == [.applied, .applied])
        #expect(result.state?.document.members["status"] == "completed")
    }

    @Test func aSnapshotKeepsContributionsOfOtherSources() throws {
        var next = self.base
        next["statusDescription"] = "packed"
        let state = self.fold(nil, try self.change("/oms", self.base), try self.change("/wms", Self.shipment)).state
        let after = self.fold(state, try self.change("/oms", next, at: 5), from: 10).state
        #expect(after?.document.members["statusDescription"] == "packed")
        #expect(after?.document.members["fulfillments"] == Self.shipment["fulfillments"])
        // A replacement contains the whole order and makes it a plain document again.
        let replaced = OrderChange(
            key: self.key, source: "/oms", id: "r", kind: .replaced(OrderDocument(members: self.base)))
        let plain = self.fold(after, replaced, from: 20).state
        #expect(plain?.document.members["fulfillments"] == nil)
        #expect(plain?.contributions?.isEmpty == true)
        #expect(plain?.contributionsBytes == [])
    }

    @Test func anOwnedMemberThatIsNotSentIsRemoved() throws {
        var first = self.base
        first["orderNumber"] = "7"
        first["statusDescription"] = "old"
        let state = self.fold(
            nil, try self.change("/oms", first, owns: ["orderNumber", "statusDescription"], at: 1)
        ).state
        #expect(state?.document.members["orderNumber"] == "7")
        // Without `owns` nothing is removed.
        let same = self.fold(state, try self.change("/oms", ["status": "completed"], at: 2), from: 5).state
        #expect(same?.document.members["orderNumber"] == "7")
        let less = self.fold(same, try self.change("/oms", self.base, owns: ["statusDescription"], at: 3), from: 9)
        #expect(less.state?.document.members["statusDescription"] == nil)
        #expect(less.state?.document.members["orderNumber"] == self.base["orderNumber"])
    }

    @Test func aMemberIsWrittenOnlyByTheSourceThatOwnsIt() throws {
        let state = self.fold(
            nil, try self.change("/oms", self.base, owns: ["status", "payment"], at: 1),
            try self.change("/wms", Self.shipment, at: 1)
        ).state
        let other = self.fold(
            state, try self.change("/wms", ["status": "cancelled", "statusDescription": "x"], at: 9), from: 5
        ).state
        #expect(other?.document.members["status"] == self.base["status"])
        #expect(other?.document.members["statusDescription"] == "x")
        // Ownership applies inside elements as well, where the longer path wins.
        let carrier = try self.change(
            "/carrier", ["fulfillments": [["fulfillmentIdentifier": "f1", "status": "onTheWay"]]],
            owns: ["fulfillments.status"], at: 2)
        let warehouse = try self.change("/wms", Self.shipment, owns: ["fulfillments"], at: 3)
        for result in [
            self.fold(other, carrier, warehouse, from: 20), self.fold(other, warehouse, carrier, from: 20),
        ] {
            let elements = result.state?.document.members["fulfillments"]
            #expect(JSON.object(["f": elements ?? .null])[path: "f.0.status"] == "onTheWay")
            #expect(JSON.object(["f": elements ?? .null])[path: "f.0.carrier"] == "DHL")
        }
    }

    @Test func theLatestWriteWinsForAnUnownedMember() throws {
        let state = self.fold(nil, try self.change("/oms", self.base, at: 1)).state
        let late = try self.change("/a", ["statusDescription": "late"], at: 20)
        let soon = try self.change("/b", ["statusDescription": "soon"], at: 10)
        for result in [self.fold(state, late, soon, from: 5), self.fold(state, soon, late, from: 5)] {
            #expect(result.state?.document.members["statusDescription"] == "late")
        }
        // Repeating a value does not count as writing it.
        let both = self.fold(state, soon, late, from: 5).state
        let again = try self.change("/b", ["statusDescription": "soon"], at: 30)
        #expect(self.fold(both, again, from: 9).state?.document.members["statusDescription"] == "late")
        let anew = try self.change("/b", ["statusDescription": "anew"], at: 30)
        #expect(self.fold(both, anew, from: 9).state?.document.members["statusDescription"] == "anew")
    }

    @Test func anIncompleteElementIsWithheldUntilItIsComplete() throws {
        let state = self.fold(nil, try self.change("/oms", self.base)).state
        let moved = OrderChange(
            key: self.key, source: "/carrier", id: "c", epochMilliseconds: 9000,
            kind: .fulfillmentUpdated(
                identifier: "f1", ["fulfillmentIdentifier": "f1", "status": "delivered"]))
        let hidden = self.fold(state, moved, from: 5)
        #expect(hidden.state?.document == state?.document)
        #expect(hidden.withheld.count == 1)
        // The change must be kept, in Kafka too, but no device is notified.
        #expect(hidden.effect == .changed)
        #expect(hidden.isSilent)
        #expect(hidden.outcomes == [.unchanged])
        let shown = self.fold(hidden.state, try self.change("/wms", Self.shipment, at: 3), from: 9)
        #expect(shown.withheld.isEmpty)
        #expect(!shown.isSilent)
        #expect(JSON.object(shown.state?.document.members ?? [:])[path: "fulfillments.0.status"] == "delivered")
    }

    @Test func lineItemsAreMergedByTheirIdentifiers() throws {
        var base = self.base
        base["lineItems"] = [
            ["title": "Lamp", "quantity": 1, "sku": "a"], ["title": "Bulb", "quantity": 2, "gtin": "b"],
        ]
        let state = self.fold(nil, try self.change("/oms", base, at: 1)).state
        let pictures = try self.change("/pim", ["lineItems": [["gtin": "b", "subtitle": "E27"]]], at: 2)
        let merged = try #require(self.fold(state, pictures, from: 5).state)
        #expect(
            merged.document.members["lineItems"]
                == [
                    ["title": "Lamp", "quantity": 1, "sku": "a"],
                    ["title": "Bulb", "quantity": 2, "gtin": "b", "subtitle": "E27"],
                ])
        // A list without identifiers is one value.
        let plain = try self.change("/pim", ["lineItems": [["title": "Set", "quantity": 1]]], at: 3)
        #expect(self.fold(merged, plain, from: 9).state?.document.members["lineItems"]?.array?.count == 1)
    }

    @Test func badClaimsAreRefused() throws {
        let state = self.fold(nil, try self.change("/oms", self.base)).state
        for owns in [["fulfilments"], ["status"]] {
            let result = self.fold(state, try self.change("/wms", Self.shipment, owns: owns), from: 5)
            #expect(self.code(result.outcomes.first) == .invalidChange, "\(owns)")
            #expect(result.state?.document == state?.document)
        }
        for text in ["", "a.", ".a", "a b", "a,b", String(repeating: "a", count: 201)] {
            #expect(throws: ChangeFault.self) { try OwnedPaths([text], path: "owns") }
        }
        var full = state
        for source in 0..<40 {
            let change = try self.change("/\(source)", ["statusDescription": .string("\(source)")], at: Int64(source))
            full = self.fold(full, change, from: Int64(10 + source)).state
        }
        #expect(full?.contributions?.parts.count == Contributions.limit)
    }

    @Test func contributionsOfAnotherVersionAreDiscarded() throws {
        let carrier = try self.change(
            "/carrier", ["fulfillments": [["fulfillmentIdentifier": "f1", "status": "onTheWay"]]],
            owns: ["fulfillments.status"], at: 2)
        let state = try #require(
            self.fold(
                nil, try self.change("/oms", self.base, at: 1), try self.change("/wms", Self.shipment, at: 5), carrier,
                try self.change("/oms", ["statusDescription": "new"], at: 7)
            ).state)
        let bytes = try #require(state.contributionsBytes)
        func back(_ version: Int64) throws -> OrderState {
            try OrderState(
                key: state.key, document: state.documentBytes, token: state.token.rawValue, version: version,
                modifiedEpochSeconds: state.modifiedEpochSeconds, sources: state.sourcesBytes,
                recent: state.recentBytes, contributions: bytes)
        }
        #expect(try back(state.version) == state)
        #expect(try back(state.version + 1).contributions == nil)
        let record = OrderRecord(state, content: RecordTests.content)
        #expect(try OrderRecord.decode(record.encoded).state(key: state.key) == state)
        // A record of an earlier Waybill, which does not know contributions.
        let earlier = try JSON(parsing: record.encoded).setting(nil, "contributions")
        #expect(try OrderRecord.decode(earlier.serialized).state(key: state.key).contributions == nil)
        let after = self.fold(
            try back(state.version + 1), try self.change("/wms", ["orderNumber": "8"], at: 9), from: 99)
        #expect(after.state?.document.members["orderNumber"] == "8")
        #expect(after.state?.document.members["statusDescription"] == "new")
    }
}

/// The parts of a result that concern devices: silent changes, announcements, and static orders.
@Suite struct TellingTests {
    private func fold(_ state: OrderState?, _ changes: [OrderChange], from offset: Int64 = 5) throws -> FoldResult {
        let numbered = changes.enumerated().map { (ChangePosition.at(offset + Int64($0)), $1) }
        return Examples.fold(try Examples.rules(try Examples.order(1))).fold(
            state, changes: numbered, nowEpochSeconds: Examples.now + 9)
    }

    private func change(_ id: String, _ kind: OrderChange.Kind, isSilent: Bool = false) throws -> OrderChange {
        OrderChange(
            key: try Examples.key(try Examples.order(1)), source: "/oms", id: id, isSilent: isSilent, kind: kind)
    }

    @Test func aSilentChangeMakesAVersionWithoutANotification() throws {
        let state = try Examples.state(1)
        let silent = try self.change("1", .patched(["orderNumber": "8"]), isSilent: true)
        let loud = try self.change("2", .patched(["statusDescription": "loud"]))
        let alone = try self.fold(state, [silent])
        #expect(alone.effect == .changed)
        #expect(alone.isSilent)
        #expect(alone.state?.version == state.version + 1)
        #expect(try !self.fold(state, [silent, loud]).isSilent)
        // A change without effect causes no notification. A redelivered change may not have caused one yet.
        let same = try self.change("3", .patched(["status": state.document.members["status"] ?? .null]))
        #expect(try self.fold(state, [silent, same]).isSilent)
        #expect(try !self.fold(self.fold(state, [loud]).state, [loud]).isSilent)
        #expect(try self.fold(alone.state, [silent]).isSilent)
    }

    @Test func anAnnouncementMakesAVersionOnlyWithTouch() throws {
        let state = try Examples.state(1)
        let plain = try self.fold(state, [self.change("1", .announced(touch: false))])
        #expect(plain.isAnnounced)
        #expect(plain.effect == .advanced)
        #expect(!plain.isSilent)
        #expect(plain.state?.version == state.version)
        #expect(plain.outcomes == [.applied])
        let touched = try self.fold(state, [self.change("1", .announced(touch: true))])
        #expect(touched.effect == .changed)
        #expect(touched.state?.version == state.version + 1)
        #expect(touched.state?.document == state.document)
        #expect((touched.state?.modifiedEpochSeconds ?? 0) > state.modifiedEpochSeconds)
        // A repeated announcement is ignored.
        #expect(try !self.fold(plain.state, [self.change("1", .announced(touch: false))], from: 9).isAnnounced)
        let unknown = try self.fold(nil, [self.change("1", .announced(touch: true))])
        #expect(unknown.state == nil)
        #expect(!unknown.isAnnounced)
    }

    @Test func aStaticOrderHasNoWebServiceURLOrToken() throws {
        let rules = try Examples.rules(try Examples.order(1))
        let document = try #require(try Examples.order(1).setting(.null, "webServiceURL").object)
        let merged = OrderChange.Kind.merged(document, owns: nil)
        for kind in [OrderChange.Kind.replaced(OrderDocument(members: document)), merged] {
            let result = try self.fold(nil, [self.change("1", kind)])
            let state = try #require(result.state)
            let order = try #require(state.orderJSON(rules: rules).object)
            #expect(state.document.isStatic)
            #expect(order["webServiceURL"] == nil)
            #expect(order["authenticationToken"] == nil)
            // The token still opens the order.
            #expect(state.token.rawValue == document["authenticationToken"]?.string)
            let record = OrderRecord(state, content: RecordTests.content)
            #expect(try OrderRecord.decode(record.encoded).state(key: state.key).document.isStatic)
            let patched = try self.fold(state, [self.change("2", .patched(["orderNumber": "9"]))], from: 9).state
            #expect(patched?.document.isStatic == true)
        }
        let state = try self.fold(nil, [self.change("1", merged)]).state
        let service = OrderChange.Kind.merged(["webServiceURL": .string(rules.webServiceURL)], owns: nil)
        let normal = try #require(try self.fold(state, [self.change("2", service)], from: 9).state)
        #expect(normal.orderJSON(rules: rules).object?["webServiceURL"] == .string(rules.webServiceURL))
        #expect(normal.document.members["webServiceURL"] == nil)
        // A merge patch that removes the member has no effect, since Waybill sets it.
        let patch = try self.fold(try Examples.state(1), [self.change("3", .patched(["webServiceURL": .null]))])
        #expect(patch.outcomes == [.unchanged])
    }
}
