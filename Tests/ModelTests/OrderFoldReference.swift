import TestKit

@testable import Model

/// The effect of changes on an order, written for clarity, without positions, versions, batches or workers.
struct OrderFoldReference {
    /// The order's members; nil if there is no order.
    private(set) var order: JSON?
    /// The last token that a change set; nil if the derived token is in use.
    var token: String?
    private var wasSeen = false
    private var applied: [String] = []
    private var last: [String: Int] = [:]
    /// The updates that arrived while there was no order.
    private var early: [OrderChange] = []

    /// - Parameter change: each record once, in order of arrival.
    mutating func take(_ change: OrderChange) {
        let identity = "\(change.source) \(change.id)"
        if self.applied.suffix(32).contains(identity) { return }
        if let number = change.number, number < self.last[change.source] ?? 0 { return }
        if self.order == nil {
            switch change.kind {
            case .replaced: break
            case .removed: self.early = []
            default:
                if self.early.contains(where: { "\($0.source) \($0.id)" == identity }) { return }
                self.early.append(change)
                return
            }
        }
        guard let next = Self.apply(change, to: self.order) else { return }
        if case .patched(let patch) = change.kind, let token = patch["authenticationToken"]?.string {
            self.token = token
        }
        (self.order, self.wasSeen) = (next, self.wasSeen || next != nil)
        // Removing an order that never existed leaves no trace.
        guard self.wasSeen else { return }
        self.applied.append(identity)
        if let number = change.number { self.last[change.source] = number }
        let early = self.early
        self.early = []
        // A document replaces what its source said before, and what it said later comes after it.
        for other in early where other.source != change.source || other.number ?? 0 > change.number ?? .max {
            self.take(other)
        }
    }

    /// - Returns: the order after the change, or an inner nil if none exists then; nil if the change cannot be applied.
    private static func apply(_ change: OrderChange, to order: JSON?) -> JSON?? {
        switch change.kind {
        case .replaced(let document): return .some(.object(document.members))
        case .removed: return .some(nil)
        // Merged orders have separate tests.
        case .merged, .announced: return nil
        case .patched(let patch):
            guard let order, patch["status"] != "nonsense" else { return nil }
            // The token is not a member of the document.
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

    /// Applies a merge patch as in the pseudocode of RFC 7396 §2.
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
