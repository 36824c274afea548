@testable import Model

/// What changes make of an order, written to be read: it knows nothing of positions, versions, batches and workers.
enum OrderFoldReference {
    /// - Parameter changes: each once, in the order in which they came.
    /// - Returns: the order's members, nil when there is no order.
    static func fold(_ changes: [OrderChange]) -> JSON? {
        var (order, seen, applied, last) = (JSON?.none, false, [String](), [String: Int]())
        for change in changes where !applied.suffix(32).contains("\(change.source) \(change.id)") {
            if let number = change.number, number < last[change.source] ?? 0 { continue }
            guard let next = self.apply(change, to: order) else { continue }
            (order, seen) = (next, seen || next != nil)
            // To remove what never was leaves no trace.
            guard seen else { continue }
            applied.append("\(change.source) \(change.id)")
            if let number = change.number { last[change.source] = number }
        }
        return order
    }

    /// - Returns: the order after the change, of which there may be none; nil when it cannot be applied.
    private static func apply(_ change: OrderChange, to order: JSON?) -> JSON?? {
        switch change.kind {
        case .replaced(let document): return .some(.object(document.members))
        case .removed: return .some(nil)
        case .patched(let patch):
            guard let order, patch["status"] != "nonsense" else { return nil }
            // The token is no member of the document.
            return self.merge(order, JSON.object(patch).setting(nil, "authenticationToken"))
        case .fulfillmentUpdated(let identifier, let patch):
            guard let order else { return nil }
            return self.element(order, "fulfillments", "fulfillmentIdentifier", identifier, patch)
        case .returnUpdated(let identifier, let patch):
            guard let order else { return nil }
            return self.element(order, "returns", "returnIdentifier", identifier, patch)
        }
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

    /// The pseudo-code of RFC 7396 §2, on values.
    private static func merge(_ target: JSON?, _ patch: JSON) -> JSON {
        guard case .object(let patch) = patch else { return patch }
        var result = target?.object ?? JSONObject()
        for member in patch.members {
            result[member.name] = member.value == .null ? nil : self.merge(result[member.name], member.value)
        }
        return .object(result)
    }
}

extension OrderChange {
    fileprivate var number: Int? { self.sequence.flatMap { Int($0) } }
}
