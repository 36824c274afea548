import Model

/// The differences that changes make to an order, for a person.
struct OrderComparison {
    /// An order document.
    let document: OrderDocument

    /// Returns where the data of changes does not keep Apple's guidelines. Another change may bring what is missing.
    static func guidelines(on changes: [OrderChange]) -> [String] {
        changes.flatMap { change in
            OrderGuideline.findings(in: change.data.map { .object($0) } ?? .null).map { "\(change.key): \($0)" }
        }
    }

    /// Returns the members that orders lack or hide if no other source brings them.
    ///
    /// - Parameter changes: of one record.
    static func notes(on changes: [OrderChange], nowEpochSeconds now: Int64) -> [String] {
        var keys: [OrderKey] = []
        for change in changes where !keys.contains(change.key) { keys.append(change.key) }
        return keys.flatMap { key in
            let own = changes.filter { $0.key == key }.enumerated().map { offset, change in
                (ChangePosition(partition: 0, offset: Int64(offset), timestampMilliseconds: now * 1000), change)
            }
            let fold = OrderFold(rules: BrandRules(orderType: key.orderType, webServiceURL: "https://example.com")) {
                _ in
                AuthenticationToken(derived: ChangeDrafts.token)
            }
            let result = fold.fold(nil, changes: own, nowEpochSeconds: now)
            let hidden = result.withheld.map { "\(key): hidden until it is complete: \($0)" }
            guard case .refused(let fault)? = result.outcomes.last else { return hidden }
            guard !result.lacks.isEmpty else { return hidden + ["\(key): \(fault.reason)"] }
            return hidden + result.lacks.map { "\(key): there is no order as long as \($0)" }
        }
    }

    /// Returns one line for each member that differs, by order.
    ///
    /// - Throws: the reason why the order or a change is refused.
    func lines(_ changes: [OrderChange], nowEpochSeconds now: Int64) throws(ChangeFault) -> [String] {
        var keys: [OrderKey] = []
        for change in changes where !keys.contains(change.key) { keys.append(change.key) }
        var lines: [String] = []
        for key in keys {
            let first = OrderChange(key: key, source: "", id: "", kind: .replaced(self.document))
            let fold = ChangeDrafts.fold(key.orderType)
            var unfinished = OrderFold.Unfinished(of: nil)
            var states: [OrderState?] = []
            for (offset, change) in ([first] + changes.filter { $0.key == key }).enumerated() {
                let position = ChangePosition(partition: 0, offset: Int64(offset), timestampMilliseconds: now * 1000)
                fold.fold(change, at: position, into: &unfinished, nowEpochSeconds: now)
                let result = fold.result(of: unfinished, nowEpochSeconds: now)
                if case .refused(let fault)? = result.outcomes.last { throw fault }
                states.append(result.state)
            }
            lines.append("\(key):")
            guard let old = states.first??.document.members, let new = states.last ?? nil else { continue }
            let differences = JSONDifference.between(.object(old), new.isRemoved ? nil : .object(new.document.members))
            lines += differences.isEmpty ? ["  no difference"] : differences.map { "  \($0)" }
        }
        return lines
    }
}

/// A place at which two values differ.
struct JSONDifference: CustomStringConvertible {
    /// Such as `$.fulfillments[0].status`.
    let path: String
    /// Nil if there is none.
    let old: JSON?
    let new: JSON?

    var description: String { "\(self.path): \(self.old?.text ?? "nothing") → \(self.new?.text ?? "nothing")" }

    /// Returns the differences, at the innermost places, in the sequence of paths.
    static func between(_ old: JSON?, _ new: JSON?, path: String = "$") -> [JSONDifference] {
        if old == new { return [] }
        if let left = old?.object, let right = new?.object {
            return Set((left.members + right.members).map(\.name)).sorted().flatMap {
                Self.between(left[$0], right[$0], path: "\(path).\($0)")
            }
        }
        if let left = old?.array, let right = new?.array {
            return (0..<max(left.count, right.count)).flatMap { index in
                Self.between(
                    index < left.count ? left[index] : nil, index < right.count ? right[index] : nil,
                    path: "\(path)[\(index)]")
            }
        }
        return [JSONDifference(path: path, old: old, new: new)]
    }
}
