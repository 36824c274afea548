import TestKit
import Testing

@testable import Model

/// The reason why a change would be refused whatever order it meets.
@Suite struct ChangeFaultTests {
    /// That of the fold of an order that does not exist, unless more must come for it to exist.
    @Test func aFaultIsThatOfTheFold() throws {
        var random = SeededGenerator(seed: 52)
        var refused = 0
        for number in 1...5 {
            let order = try Examples.order(number)
            let (key, fold) = (try Examples.key(order), Examples.fold(try Examples.rules(order)))
            let whole = ["updatedAt", "orderType", "orderTypeIdentifier", "orderIdentifier"].reduce(order) {
                $0.setting(nil, $1)
            }
            for _ in 0..<60 {
                var data = whole
                for _ in 0..<Int.random(in: 0...2, using: &random) {
                    guard let path = data.paths.randomElement(using: &random) else { continue }
                    let values: [JSON?] = [nil, .null, "", "x", 0, -1, [], [:], ["a": 1], true]
                    data = data.setting(values.randomElement(using: &random) ?? nil, path)
                }
                let members = try #require(data.object)
                let element = data[path: "fulfillments.0"]?.object ?? members
                let owns = ["payment", "fulfillments.status", "createdAt", "lineItems"].shuffled(using: &random)
                let kinds: [OrderChange.Kind] = [
                    .merged(members, owns: nil),
                    .merged(members, owns: try OwnedPaths(Array(owns.prefix(2)), path: "owns")), .patched(members),
                    .replaced(OrderDocument(members: members)), .fulfillmentUpdated(identifier: "f", element),
                    .announced(touch: true), .removed,
                ]
                for kind in kinds {
                    let change = OrderChange(key: key, source: "/shop", id: "1", sequence: "7", kind: kind)
                    let result = fold.fold(nil, changes: [(.at(0), change)], nowEpochSeconds: Examples.now)
                    var expected: ChangeFault?
                    if case .refused(let fault)? = result.outcomes.first, fault.code != .unknownOrder {
                        expected = fault
                    }
                    #expect(fold.fault(of: change, nowEpochSeconds: Examples.now) == expected)
                    refused += expected == nil ? 0 : 1
                }
            }
        }
        #expect(refused > 100)
    }
}
