import TestKit
import Testing

@testable import Model

@Suite struct OrderFoldTests {
    private let now = Examples.now

    /// Folds changes of example 1 with increasing offsets and distinct identifiers.
    private func fold(
        _ state: OrderState?, _ kinds: [OrderChange.Kind], from offset: Int64 = 1, now: Int64 = Examples.now
    ) throws -> FoldResult {
        let order = try Examples.order(1)
        let key = try Examples.key(order)
        let changes = kinds.enumerated().map { index, kind in
            (
                ChangePosition.at(offset + Int64(index)),
                OrderChange(key: key, source: "/oms", id: "\(offset)-\(index)", kind: kind)
            )
        }
        return Examples.fold(try Examples.rules(order)).fold(state, changes: changes, nowEpochSeconds: now)
    }

    private func code(_ outcome: ChangeOutcome?) -> ChangeFault.Code? {
        guard case .refused(let fault)? = outcome else { return nil }
        return fault.code
    }

    private func reason(_ outcome: ChangeOutcome?) -> String {
        guard case .refused(let fault)? = outcome else { return "" }
        return fault.reason
    }

    @Test(arguments: 1...5)
    func aPublishedExampleChangesOnlyInWaybillsMembers(_ number: Int) throws {
        let state = try Examples.state(number)
        let order = try Examples.order(number)
        let rules = try Examples.rules(order)
        #expect(state.version.ordinal == 1)
        #expect(!state.isRemoved)
        #expect(state.modifiedEpochSeconds == self.now)
        var expected = order.setting(.string(RFC3339.format(epochSeconds: self.now)), "updatedAt")
        // A document without a token gets the derived one, and every order gets the web service URL.
        expected = expected.setting(.string(state.token.rawValue), "authenticationToken")
        expected = expected.setting(.string(rules.webServiceURL), "webServiceURL")
        #expect(state.orderJSON(rules: rules) == expected)
        #expect(state.document.members["webServiceURL"] == nil)
        #expect(state.document.members["authenticationToken"] == nil)
    }

    @Test func aRemovalOfAnotherVersionIsSkipped() throws {
        let state = try Examples.state(1)
        let fold = Examples.fold(try Examples.rules(try Examples.order(1)))
        func outcomes(_ version: Int64, after kinds: [OrderChange.Kind] = []) -> [ChangeOutcome] {
            let all: [(kind: OrderChange.Kind, version: Int64?)] =
                kinds.map { ($0, nil) } + [(.removed, version)]
            let changes = all.enumerated().map { index, change in
                (
                    ChangePosition.at(Int64(1000 + index)),
                    OrderChange(
                        key: state.key, source: "/x", id: "\(index)", ifVersion: change.version, kind: change.kind)
                )
            }
            return fold.fold(state, changes: changes, nowEpochSeconds: self.now).outcomes
        }
        #expect(outcomes(state.version) == [.applied])
        #expect(outcomes(state.version + 1) == [.skipped(.anotherVersion)])
        let patch = OrderChange.Kind.patched(["statusDescription": "new"])
        #expect(outcomes(state.version, after: [patch]) == [.applied, .skipped(.anotherVersion)])
        #expect(outcomes(state.version, after: [.announced(touch: true)]).last == .skipped(.anotherVersion))
        #expect(outcomes(state.version, after: [.announced(touch: false)]).last == .applied)
    }

    @Test func theTokenComesFromTheDocumentOrIsDerivedAndIsKept() throws {
        let order = try Examples.order(1)
        let given = try Examples.state(1)
        #expect(given.token.rawValue == "k3V0mYyq8Zt1LrXn5bQd7PwEa2GhJc9S")
        let bare = OrderDocument(members: try #require(order.setting(nil, "authenticationToken").object))
        let derived = try #require(try self.fold(nil, [.replaced(bare)]).state)
        #expect(derived.token.rawValue == "derived-0123456789")
        // Devices hold the token they know, so a document without a token does not remove it.
        #expect(try self.fold(given, [.replaced(bare)]).effect == .advanced)
        let changed = try self.fold(
            derived, [.patched(["authenticationToken": "another-0123456789"])], from: 2)
        #expect(changed.effect == .changed)
        #expect(changed.state?.token.rawValue == "another-0123456789")
        #expect(try self.fold(given, [.patched(["authenticationToken": .null])]).effect == .advanced)
        let refused = try self.fold(given, [.patched(["authenticationToken": "short"])])
        #expect(self.code(refused.outcomes.first) == .invalidOrder)
        #expect(refused.state?.token == given.token)
        #expect(!self.reason(refused.outcomes.first).contains("\"short\""))
    }

    @Test func membersOwnedByWaybillMustAgree() throws {
        let state = try Examples.state(1)
        for (name, value): (String, JSON) in [
            ("orderType", "shop"), ("orderTypeIdentifier", "order.com.example.other"), ("orderIdentifier", "x"),
            ("webServiceURL", "https://other.example/"), ("webServiceURL", 1), ("orderIdentifier", 7),
        ] {
            let result = try self.fold(state, [.patched([name: value])])
            #expect(self.reason(result.outcomes.first).contains("$.\(name) must be"))
            #expect(result.effect == .advanced)
            #expect(result.state?.document == state.document)
            let document = try Examples.order(1).setting(value, name).object
            let replaced = try self.fold(nil, [.replaced(OrderDocument(members: try #require(document)))])
            #expect(self.code(replaced.outcomes.first) == .invalidOrder)
            #expect(replaced.state == nil)
        }
        for (name, value): (String, JSON) in [
            ("updatedAt", 17), ("webServiceURL", "https://wallet.shop.example.com/apple"), ("orderType", .null),
            ("webServiceURL", "https://wallet.shop.example.com/apple/"), ("orderType", "ecommerce"),
        ] {
            #expect(try self.fold(state, [.patched([name: value])]).outcomes == [.unchanged])
        }
        #expect(self.code(try self.fold(state, [.patched(["schemaVersion": 3])]).outcomes.first) == .invalidOrder)
    }

    @Test func theDefaultSchemaVersionIsTheLowestThatFits() throws {
        func version(_ order: JSON) throws -> JSON? {
            let rules = try Examples.rules(order)
            let change = OrderChange(
                key: try Examples.key(order), source: "s", id: "1",
                kind: .replaced(OrderDocument(members: try #require(order.object))))
            return Examples.fold(rules).fold(nil, changes: [(.at(1), change)], nowEpochSeconds: self.now).state?
                .orderJSON(rules: rules).object?["schemaVersion"]
        }
        #expect(try version(Examples.order(5)) == 2)
        #expect(try version(Examples.order(5).setting(nil, "schemaVersion")) == 2)
        #expect(try version(Examples.order(5).setting(1, "schemaVersion")) == nil)
        #expect(try version(Examples.order(1).setting(nil, "schemaVersion")) == 1)
        #expect(try version(Examples.order(1).setting(2, "schemaVersion")) == 2)
        #expect(try version(Examples.order(4).setting(nil, "schemaVersion")) == 1)
    }

    @Test(arguments: [ChangeNotifications.enabled, .disabledIfAppInstalled])
    func changeNotificationsOfTheOrderOverrideTheBrand(_ wish: ChangeNotifications) throws {
        let example = try Examples.order(1)
        var rules = try Examples.rules(example)
        #expect(example.object?["changeNotifications"] == "disabledIfAppInstalled")
        let given = try Examples.state(1)
        var bare = given
        bare.document.members["changeNotifications"] = nil
        #expect(bare.orderJSON(rules: rules).object?["changeNotifications"] == nil)
        rules.changeNotifications = wish
        #expect(bare.orderJSON(rules: rules).object?["changeNotifications"] == .string(wish.rawValue))
        #expect(given.orderJSON(rules: rules).object?["changeNotifications"] == "disabledIfAppInstalled")
        // The member belongs to the brand, so it is not stored with the order.
        #expect(bare.document.members["changeNotifications"] == nil)
        let order = bare.orderJSON(rules: rules)
        #expect(OrderValidator.violations(in: order, allowUnknownMembers: false, nowEpochSeconds: self.now).isEmpty)
    }

    @Test func merchantAndReturnInfoComeFromTheBrandAsAWhole() throws {
        let order = try Examples.order(3)
        var rules = try Examples.rules(order)
        rules.returnInfo = ["returnPolicyURL": "https://brand.example/returns"]
        let bare = order.setting(nil, "merchant").setting(nil, "returnInfo")
        let change = OrderChange(
            key: try Examples.key(order), source: "s", id: "1",
            kind: .replaced(OrderDocument(members: try #require(bare.object))))
        let fold = Examples.fold(rules)
        let state = try #require(fold.fold(nil, changes: [(.at(1), change)], nowEpochSeconds: self.now).state)
        #expect(state.orderJSON(rules: rules).object?["merchant"]?.object == rules.merchant)
        #expect(state.orderJSON(rules: rules).object?["returnInfo"]?.object == rules.returnInfo)
        #expect(state.document.members["merchant"] == nil)
        rules.merchant = nil
        let refused = Examples.fold(rules).fold(nil, changes: [(.at(1), change)], nowEpochSeconds: self.now)
        #expect(self.reason(refused.outcomes.first).contains("$.merchant is missing"))
    }

    @Test func aBacklogIsOneVersion() throws {
        let state = try Examples.state(1)
        let result = try self.fold(
            state,
            [
                .patched(["status": "completed"]), .patched(["orderNumber": "7"]),
                .fulfillmentUpdated(
                    identifier: "ship-1", ["fulfillmentIdentifier": "ship-1", "status": "delivered", "carrier": .null]),
            ])
        let new = try #require(result.state)
        #expect(result.effect == .changed)
        #expect(result.outcomes == [.applied, .applied, .applied])
        #expect(new.version.ordinal == 2)
        #expect(new.modifiedEpochSeconds == self.now + 1)
        let order = JSON.object(new.document.members)
        #expect(order[path: "status"] == "completed")
        #expect(order[path: "orderNumber"] == "7")
        #expect(order[path: "fulfillments.0.status"] == "delivered")
        #expect(order[path: "fulfillments.0.carrier"] == nil)
        #expect(order[path: "fulfillments.0.trackingNumber"] != nil)
        #expect(order[path: "fulfillments.1.status"] == "processing")
    }

    @Test func anUnknownFulfillmentOrReturnIsAppended() throws {
        let state = try Examples.state(4)
        let key = state.key
        let rules = try Examples.rules(Examples.order(4))
        let changes: [OrderChange.Kind] = [
            .fulfillmentUpdated(
                identifier: "f9",
                [
                    "fulfillmentIdentifier": "f9", "fulfillmentType": "shipping", "status": "open", "notes": .null,
                ]),
            .returnUpdated(identifier: "r9", ["returnIdentifier": "r9", "status": "open"]),
        ]
        let result = Examples.fold(rules).fold(
            state,
            changes: changes.enumerated().map {
                (.at(Int64($0 + 5)), OrderChange(key: key, source: "wms", id: "\($0)", kind: $1))
            }, nowEpochSeconds: self.now)
        #expect(result.outcomes == [.applied, .applied])
        let order = JSON.object(try #require(result.state).document.members)
        #expect(
            order[path: "fulfillments"]
                == [["fulfillmentIdentifier": "f9", "fulfillmentType": "shipping", "status": "open"]])
        #expect(order[path: "returns"] == [["returnIdentifier": "r9", "status": "open"]])
    }

    @Test func aRefusedChangeLeavesTheOthersAlone() throws {
        let state = try Examples.state(1)
        let result = try self.fold(
            state,
            [
                .patched(["orderNumber": "1"]), .patched(["payment": ["total": ["amount": "1.00"]]]),
                .patched(["statusDescription": "SENT"]),
            ])
        #expect(result.outcomes[0] == .applied)
        #expect(result.outcomes[2] == .applied)
        #expect(self.reason(result.outcomes[1]).contains("$.payment.total.amount must be what the summaryItems"))
        let order = JSON.object(try #require(result.state).document.members)
        #expect(order[path: "orderNumber"] == "1")
        #expect(order[path: "statusDescription"] == "SENT")
        #expect(order[path: "payment.total.amount"] == "149.40")
    }

    @Test func anUpdateOfAnUnknownOrderIsRefusedAndLeavesNothing() throws {
        for kind: OrderChange.Kind in [
            .patched(["status": "open"]), .returnUpdated(identifier: "r", ["returnIdentifier": "r"]),
            .fulfillmentUpdated(identifier: "f", ["fulfillmentIdentifier": "f"]),
        ] {
            let result = try self.fold(nil, [kind])
            #expect(self.code(result.outcomes.first) == .unknownOrder)
            #expect(result.state == nil)
            #expect(result.effect == .none)
        }
        let removed = try self.fold(nil, [.removed])
        #expect(removed == FoldResult(state: nil, effect: .none, outcomes: [.unchanged]))
    }

    @Test func aRefusedAppendNamesTheUnknownIdentifier() throws {
        for (kind, told): (OrderChange.Kind, String) in [
            (.fulfillmentUpdated(identifier: "sihp-1", ["fulfillmentIdentifier": "sihp-1"]), "fulfillment \"sihp-1\""),
            (.returnUpdated(identifier: "r", ["returnIdentifier": "r"]), "return \"r\""),
        ] {
            let result = try self.fold(try Examples.state(1), [kind])
            guard case .refused(let fault)? = result.outcomes.first else {
                Issue.record("\(result.outcomes)")
                continue
            }
            #expect(fault.reason.contains("the order had no \(told), so it was taken for a new one"), "\(fault)")
        }
    }

    @Test func aRemovedOrderIsATombstoneThatOnlyANewDocumentBringsBack() throws {
        let state = try Examples.state(1)
        let removed = try self.fold(state, [.removed])
        let tombstone = try #require(removed.state)
        #expect(removed.effect == .removed)
        #expect(tombstone.isRemoved)
        #expect(tombstone.version.ordinal == 2)
        #expect(tombstone.document == .empty)
        #expect(tombstone.modifiedEpochSeconds > state.modifiedEpochSeconds)
        let patched = try self.fold(tombstone, [.patched(["status": "open"]), .removed], from: 2)
        #expect(self.code(patched.outcomes[0]) == .unknownOrder)
        #expect(patched.outcomes[1] == .unchanged)
        #expect(patched.effect == .advanced)
        #expect(patched.state?.isRemoved == true)
        #expect(patched.state?.version.ordinal == 2)
        // The first change again: as a redelivery, and as a copy at a later offset.
        let document = OrderDocument(members: try #require(try Examples.order(1).object))
        let first = OrderChange(key: state.key, source: "/oms", id: "first", kind: .replaced(document))
        let fold = Examples.fold(try Examples.rules(Examples.order(1)))
        let again = fold.fold(tombstone, changes: [(.at(0), first), (.at(9), first)], nowEpochSeconds: self.now)
        #expect(again.outcomes == [.skipped(.redelivered), .skipped(.duplicate)])
        #expect(again.state?.isRemoved == true)
        let back = try self.fold(tombstone, [.replaced(document)], from: 5)
        #expect(back.effect == .changed)
        #expect(back.state?.version.ordinal == 3)
        #expect(back.state?.isRemoved == false)
        #expect(try #require(back.state).modifiedEpochSeconds > tombstone.modifiedEpochSeconds)
    }

    @Test func anOrderCreatedAndRemovedInOneBatchIsATombstone() throws {
        let document = OrderDocument(members: try #require(try Examples.order(1).object))
        let result = try self.fold(nil, [.replaced(document), .removed])
        #expect(result.effect == .removed)
        #expect(result.state?.isRemoved == true)
        #expect(result.state?.version.ordinal == 1)
    }

    @Test func aRevertedChangeMakesNoNewVersion() throws {
        let state = try Examples.state(1)
        let result = try self.fold(state, [.patched(["orderNumber": "x"]), .patched(["orderNumber": "FP-20418"])])
        #expect(result.outcomes == [.applied, .applied])
        #expect(result.effect == .advanced)
        #expect(result.state?.version.ordinal == 1)
        #expect(result.state?.modifiedEpochSeconds == state.modifiedEpochSeconds)
    }

    @Test func aRedeliveredChangeLeavesTheOrderUnchanged() throws {
        let first = try #require(try self.fold(try Examples.state(1), [.patched(["orderNumber": "x"])]).state)
        let again = try self.fold(first, [.patched(["orderNumber": "x"])])
        #expect(again == FoldResult(state: first, effect: .none, outcomes: [.skipped(.redelivered)]))
        #expect(try self.fold(first, []) == FoldResult(state: first, effect: .none, outcomes: []))
        // A recreated topic counts from 0, and its records are newer.
        let order = try Examples.order(1)
        let change = OrderChange(
            key: try Examples.key(order), source: "/oms", id: "new", kind: .patched(["orderNumber": "y"]))
        let anew = Examples.fold(try Examples.rules(order)).fold(
            first, changes: [(.at(0, timestamp: 5000), change)], nowEpochSeconds: self.now)
        #expect(anew.outcomes == [.applied])
        #expect(anew.state?.positions.position(inPartition: 3)?.offset == 0)
    }

    @Test func aRedeliveryIsDetectedAfterTheTimestampFalls() {
        var positions = AppliedPositions()
        positions.advance(to: .at(5, timestamp: 100))
        positions.advance(to: .at(6, timestamp: 90))
        #expect(positions.isRedelivery(.at(5, timestamp: 100)))
        #expect(positions.position(inPartition: 3) == .at(6, timestamp: 100))
    }

    @Test func aLateChangeOfASourceIsSkipped() throws {
        let order = try Examples.order(1)
        let fold = Examples.fold(try Examples.rules(order))
        let key = try Examples.key(order)
        var state: OrderState? = try Examples.state(1)
        var offset: Int64 = 1
        for (source, sequence, outcome): (String, String, ChangeOutcome) in [
            ("a", "9", .applied), ("a", "10", .applied), ("a", "009", .skipped(.outOfSequence)), ("b", "1", .applied),
            ("a", "10", .applied), ("a", "0000000000000000000000000000000011", .applied),
            ("a", "10", .skipped(.outOfSequence)),
            ("a", "99999999999999999999999999999999999999", .applied), ("a", "100", .skipped(.outOfSequence)),
        ] {
            let change = OrderChange(
                key: key, source: source, id: "s\(offset)", sequence: sequence,
                kind: .patched(["orderNumber": .string("\(offset)")]))
            let result = fold.fold(state, changes: [(.at(offset), change)], nowEpochSeconds: self.now)
            #expect(result.outcomes == [outcome])
            state = result.state
            offset += 1
        }
    }

    @Test func updatedAtGrowsByASecondAndIsNotBeforeCreatedAt() throws {
        let state = try Examples.state(1)
        let before = try self.fold(state, [.patched(["orderNumber": "1"])], now: self.now - 500)
        #expect(before.state?.modifiedEpochSeconds == self.now + 1)
        let after = try self.fold(state, [.patched(["orderNumber": "1"])], now: self.now + 500)
        #expect(after.state?.modifiedEpochSeconds == self.now + 500)
        let soon = RFC3339.format(epochSeconds: self.now + 3600).dropLast() + ".25Z"
        let created = try self.fold(state, [.patched(["createdAt": .string(String(soon))])])
        #expect(created.state?.modifiedEpochSeconds == self.now + 3601)
        let far = RFC3339.format(epochSeconds: self.now + 86_401)
        let refused = try self.fold(state, [.patched(["createdAt": .string(far)])])
        #expect(self.reason(refused.outcomes.first).contains("$.createdAt is more than 24 hours in the future"))
    }

    @Test func aChangeThatMakesAnOrderTooLargeIsRefused() throws {
        let state = try Examples.state(1)
        let note = String(repeating: "n", count: 900_000)
        let one: JSONObject = [
            "fulfillmentIdentifier": "a", "fulfillmentType": "shipping", "status": "open", "notes": .string(note),
        ]
        var two = one
        two["fulfillmentIdentifier"] = "b"
        let result = try self.fold(
            state, [.fulfillmentUpdated(identifier: "a", one), .fulfillmentUpdated(identifier: "b", two)])
        #expect(result.outcomes[0] == .applied)
        #expect(self.reason(result.outcomes[1]).contains("an order has at most 1048576"))
    }

    @Test func unknownMembersPassOnlyWhenTheBrandAllowsThem() throws {
        let order = try Examples.order(1).setting(["deep": [[1]]], "futureMember")
        var rules = try Examples.rules(order)
        let change = OrderChange(
            key: try Examples.key(order), source: "s", id: "1",
            kind: .replaced(OrderDocument(members: try #require(order.object))))
        let refused = Examples.fold(rules).fold(nil, changes: [(.at(1), change)], nowEpochSeconds: self.now)
        #expect(self.reason(refused.outcomes.first).contains("$.futureMember is not a member of an order"))
        rules.passUnknownMembers = true
        let passed = Examples.fold(rules).fold(nil, changes: [(.at(1), change)], nowEpochSeconds: self.now)
        #expect(passed.state?.orderJSON(rules: rules).object?["futureMember"] == ["deep": [[1]]])
    }
}
