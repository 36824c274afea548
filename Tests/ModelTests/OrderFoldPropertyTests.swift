import Testing

@testable import Model

/// The fold against a reference that knows nothing of versions, batches and crashes.
@Suite struct OrderFoldPropertyTests {
    /// The pseudo-code of RFC 7396 §2, on values.
    private static func merge(_ target: JSON?, _ patch: JSON) -> JSON {
        guard case .object(let patch) = patch else { return patch }
        var result = target?.object ?? JSONObject()
        for member in patch.members {
            result[member.name] = member.value == .null ? nil : self.merge(result[member.name], member.value)
        }
        return .object(result)
    }

    private static func random(_ key: OrderKey, _ number: Int, _ base: JSON, _ random: inout SeededGenerator)
        -> OrderChange
    {
        let text = JSON.string("\(Int.random(in: 0..<4, using: &random))")
        let kind: OrderChange.Kind
        switch Int.random(in: 0..<12, using: &random) {
        case 0: kind = .removed
        case 1...3: kind = .replaced(OrderDocument(members: base.setting(text, "orderNumber").object ?? [:]))
        case 4, 5: kind = .patched(["orderNumber": Bool.random(using: &random) ? .null : text])
        case 6: kind = .patched(["customer": ["givenName": text, "phoneNumber": .null]])
        case 7: kind = .patched(["status": Bool.random(using: &random) ? "open" : "nonsense"])
        case 8, 9:
            let identifier = "f\(Int.random(in: 0..<3, using: &random))"
            kind = .fulfillmentUpdated(
                identifier: identifier,
                [
                    "fulfillmentIdentifier": .string(identifier), "fulfillmentType": "shipping", "notes": text,
                    "status": "open",
                ])
        default:
            let identifier = "r\(Int.random(in: 0..<3, using: &random))"
            kind = .returnUpdated(
                identifier: identifier,
                ["returnIdentifier": .string(identifier), "status": "open", "returnNumber": text])
        }
        // Some changes are sent twice, each copy with an offset of its own.
        let isCopy = number > 0 && Int.random(in: 0..<6, using: &random) == 0
        return OrderChange(key: key, source: "/s", id: "\(isCopy ? number - 1 : number)", kind: kind)
    }

    /// - Returns: the order's members after all changes, nil when there is no order.
    private static func reference(_ changes: [OrderChange]) -> JSON? {
        var order: JSON?
        var applied: Set<String> = []
        for change in changes where !applied.contains(change.id) {
            switch change.kind {
            case .replaced(let document): order = .object(document.members)
            case .removed: order = nil
            case .patched(let patch):
                guard let old = order, patch["status"] != "nonsense" else { continue }
                order = self.merge(old, .object(patch))
            case .fulfillmentUpdated(let identifier, let patch):
                guard let old = order else { continue }
                order = self.element(old, "fulfillments", "fulfillmentIdentifier", identifier, patch)
            case .returnUpdated(let identifier, let patch):
                guard let old = order else { continue }
                order = self.element(old, "returns", "returnIdentifier", identifier, patch)
            }
            applied.insert(change.id)
        }
        return order
    }

    private static func element(
        _ order: JSON, _ array: String, _ name: String, _ identifier: String, _ patch: JSONObject
    ) -> JSON {
        var elements = order.object?[array]?.array ?? []
        let index = elements.firstIndex { $0.object?[name]?.string == identifier } ?? elements.count
        if index == elements.count { elements.append([:]) }
        elements[index] = self.merge(elements[index], .object(patch))
        return order.setting(.array(elements), array)
    }

    @Test(arguments: 0..<150)
    func anyBatchesCrashesAndRedeliveriesEndInTheSameOrder(_ seed: Int) throws {
        var random = SeededGenerator(state: UInt64(seed))
        let base = try Examples.order(4).setting(nil, "updatedAt").setting(nil, "orderType")
            .setting(nil, "orderTypeIdentifier").setting(nil, "orderIdentifier")
        let order = try Examples.order(4)
        let key = try Examples.key(order)
        let fold = Examples.fold(try Examples.rules(order))
        let log = (0..<40).map { Self.random(key, $0, base, &random) }
        var stored: OrderState?
        var now = Examples.now
        var committed = 0
        while committed < log.count {
            let end = min(committed + Int.random(in: 1...7, using: &random), log.count)
            let batch = (committed..<end).map {
                (ChangePosition.at(Int64($0), timestamp: Int64($0 / 3)), log[$0])
            }
            let result = fold.fold(stored, changes: batch, nowEpochSeconds: now)
            #expect(result.outcomes.count == batch.count)
            Self.check(result, after: stored)
            now += Int64.random(in: 0...2, using: &random)
            switch Int.random(in: 0..<4, using: &random) {
            case 0: break  // Crashed before it was stored.
            case 1: stored = try Self.throughRedis(result.state)  // Crashed before the commit.
            default:
                stored = try Self.throughRedis(result.state)
                committed = end
            }
        }
        let expected = Self.reference(log)
        #expect(stored.flatMap { $0.isRemoved ? nil : JSON.object($0.document.members) } == expected)
        #expect(stored?.isRemoved ?? true == (expected == nil))
    }

    private static func check(_ result: FoldResult, after state: OrderState?) {
        switch result.effect {
        case .none: #expect(result.state == state)
        case .advanced:
            #expect(result.state?.version == state?.version && result.state?.document == state?.document)
            #expect(result.state?.modifiedEpochSeconds == state?.modifiedEpochSeconds)
        case .changed, .removed:
            #expect(result.state?.version == (state?.version ?? 0) + 1)
            #expect(result.state?.modifiedEpochSeconds ?? 0 > state?.modifiedEpochSeconds ?? 0)
            #expect(result.state?.isRemoved == (result.effect == .removed))
        }
    }

    private static func throughRedis(_ state: OrderState?) throws -> OrderState? {
        guard let state else { return nil }
        let back = try OrderState(
            key: state.key, document: state.documentBytes, token: state.token.rawValue, version: state.version,
            modifiedEpochSeconds: state.modifiedEpochSeconds, sources: state.sourcesBytes, recent: state.recentBytes)
        #expect(back == state)
        return back
    }
}
