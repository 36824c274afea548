import TestKit
import Testing

@testable import Model

/// A value on which Swift and the JSON Schemas must agree.
struct SchemaCase {
    /// The schema's file name without `.schema.json`.
    let schema: String
    let name: String
    let instance: JSON
    /// The verdict that both must give; nil if they must only agree.
    let isValid: Bool?

    static func verdicts(_ cases: [SchemaCase]) throws -> [Bool] {
        try SchemaProgram.verdicts(cases.map { ($0.schema, $0.instance) })
    }

    /// The key of example 1, which the document and event cases are about.
    static var key: OrderKey { get throws { try Examples.key(try Examples.order(1)) } }
}

/// The Swift code's verdict on the cases.
struct SwiftJudge {
    private let key: OrderKey
    private let fold: OrderFold
    private let state: OrderState

    init() throws {
        self.key = try SchemaCase.key
        self.fold = Examples.fold(try Examples.rules(try Examples.order(1)))
        self.state = try Examples.state(1)
    }

    func accepts(_ item: SchemaCase) throws -> Bool {
        switch item.schema {
        case "order":
            return OrderValidator.violations(
                in: item.instance, allowUnknownMembers: false, nowEpochSeconds: nil, files: .names
            ).isEmpty
        case "order-document":
            guard case .object(let members) = item.instance else { return false }
            let kind = OrderChange.Kind.replaced(OrderDocument(members: members))
            return self.isApplied(OrderChange(key: self.key, source: "s", id: "new", kind: kind), nil)
        case "order-change":
            let key = Array(self.key.description.utf8)
            guard let change = try? OrderChange.decode(key: key, value: item.instance.serialized, headers: []) else {
                return false
            }
            return self.isApplied(change, self.state)
        case "order-record": return (try? OrderRecord.decode(item.instance.serialized)) != nil
        case "registration": return (try? RegistrationRecord.decode(item.instance.serialized)) != nil
        case "pending-push": return (try? PendingPushRecord.decode(item.instance.serialized)) != nil
        case "adoption": return (try? AdoptionRecord.decode(item.instance.serialized)) != nil
        default:
            Issue.record("there is no schema \(item.schema)")
            return false
        }
    }

    private func isApplied(_ change: OrderChange, _ state: OrderState?) -> Bool {
        let result = self.fold.fold(state, changes: [(.at(99), change)], nowEpochSeconds: Examples.now)
        if case .refused? = result.outcomes.first { return false }
        return true
    }
}
