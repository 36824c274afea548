import TestKit
import Testing

@testable import Model

/// Three sources write one order without waiting for each other.
@Suite struct SourceInterleavingTests {
    private let fold: OrderFold
    private let key: OrderKey
    private let base: JSONObject

    init() throws {
        let order = try Examples.order(1)
        self.fold = Examples.fold(try Examples.rules(order))
        self.key = try Examples.key(order)
        self.base = try #require(order.setting(nil, "fulfillments").setting(nil, "returns").object)
    }

    private func merged(_ data: JSONObject, owns: [String]? = nil) throws -> OrderChange.Kind {
        .merged(data, owns: try owns.map { try OwnedPaths($0, path: "owns") })
    }

    /// Returns the changes of each source in order, each written at its own moment.
    private func changes(_ kinds: [[OrderChange.Kind]], at moments: (Int, Int) -> Int64) -> [[OrderChange]] {
        kinds.enumerated().map { source, kinds in
            kinds.enumerated().map { index, kind in
                OrderChange(
                    key: self.key, source: "/source-\(source)", id: "\(index)",
                    epochMilliseconds: moments(source, index), kind: kind)
            }
        }
    }

    @Test func allInterleavingsOfSevenEventsEndInTheSameDocument() throws {
        func element(_ identifier: String, _ members: JSONObject) -> JSON {
            .object(members.merging(["fulfillmentIdentifier": .string(identifier)]))
        }
        var closed = self.base
        closed["status"] = "completed"
        closed["statusDescription"] = nil
        let whole = element("f1", ["fulfillmentType": "shipping", "status": "processing", "carrier": "DHL"])
        let changes = self.changes(
            [
                [
                    try self.merged(self.base, owns: ["status", "statusDescription", "lineItems"]),
                    try self.merged(closed, owns: ["status", "statusDescription", "lineItems"]),
                ],
                [
                    try self.merged(["fulfillments": [whole]]),
                    .fulfillmentUpdated(
                        identifier: "f1", ["fulfillmentIdentifier": "f1", "status": "shipped", "trackingNumber": "1"]),
                    try self.merged([
                        "fulfillments": [element("f2", ["fulfillmentType": "shipping", "status": "open"])],
                        "status": "cancelled", "statusDescription": "of the warehouse",
                    ]),
                ],
                [
                    try self.merged(
                        ["fulfillments": [element("f1", ["status": "onTheWay"])]], owns: ["fulfillments.status"]),
                    .patched(["fulfillments": [element("f1", ["status": "delivered"])], "orderNumber": "77"]),
                ],
            ]) { Int64($0 * 7 + $1 * 5) * 1000 }
        let orders = Self.interleavings(changes.map(\.count))
        #expect(orders.count == 210)
        var documents: Set<OrderDocument> = []
        for (number, order) in orders.enumerated() {
            for life in 0..<3 {
                var life = SourceLife(self.fold, changes, seed: UInt64(number * 3 + life))
                documents.insert(try #require(try life.run(order).document))
            }
        }
        let document = try #require(documents.first)
        #expect(documents.count == 1)
        let order = JSON.object(document.members)
        #expect(order.object?["status"] == "completed")
        #expect(order.object?["statusDescription"] == nil)
        #expect(order[path: "fulfillments.0.status"] == "delivered")
        #expect(order[path: "fulfillments.0.carrier"] == "DHL")
        #expect(order[path: "fulfillments.0.trackingNumber"] == "1")
        #expect(order[path: "fulfillments.1.status"] == "open")
    }

    /// Sources contradict one another and themselves, bring tokens, and send values that no order may have. Some number
    /// their events and send an early one again. Some orders are removed, and come back.
    @Test(arguments: fuzzSeeds(120))
    func randomInterleavingsEndInTheSameOrderAndTheSameDeadLetters(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let counts = (0..<(seed % 3 == 0 ? 2 : 1)).map { _ in
            (0..<4).map { _ in Int.random(in: 1...2, using: &random) } + [1]
        }
        var kinds: [[OrderChange.Kind]] = counts[0].map { _ in [] }
        for (life, counts) in counts.enumerated() {
            if life > 0 { kinds[0].append(.removed) }
            for (source, count) in counts.enumerated() {
                for index in 0..<count {
                    let isWhole = source == 0 && index == 0
                    kinds[source].append(
                        isWhole
                            ? .merged(self.base, owns: nil)
                            : try self.made(&random, tokens: life == counts.count - 1))
                }
            }
        }
        let moments = kinds.map { $0.map { _ in Int64.random(in: 0..<5, using: &random) } }
        var changes = self.changes(kinds) { moments[$0][$1] }
        var repeats = Array(repeating: 0, count: changes.count)
        for source in changes.indices where Bool.random(using: &random) {
            changes[source] = changes[source].enumerated().map { self.numbered($1, $0 + 9, id: $1.id) }
            guard counts.count == 1, changes[source].count > 1 else { continue }
            changes[source].append(self.numbered(changes[source][0], 9, id: "again"))
            repeats[source] = 1
        }
        var ends: Set<SourceLife.End> = []
        for _ in 0..<12 {
            var order: [Int] = []
            for (life, counts) in counts.enumerated() {
                if life > 0 { order.append(0) }
                order += zip(counts, repeats).enumerated()
                    .flatMap { Array(repeating: $0.offset, count: $0.element.0 + $0.element.1) }
                    .shuffled(using: &random)
            }
            var life = SourceLife(self.fold, changes, seed: random.next())
            ends.insert(try life.run(order))
        }
        #expect(ends.count == 1, "\(ends)")
        #expect(ends.first?.document != nil)
    }

    private func numbered(_ change: OrderChange, _ sequence: Int, id: String) -> OrderChange {
        OrderChange(
            key: change.key, source: change.source, id: id, sequence: "\(sequence)",
            epochMilliseconds: change.epochMilliseconds, kind: change.kind)
    }

    /// Returns a change of a random part of the order.
    ///
    /// - Parameter tokens: false for one that brings none.
    private func made(_ random: inout SeededGenerator, tokens: Bool) throws -> OrderChange.Kind {
        func any(_ values: [JSON]) -> JSON { values.randomElement(using: &random) ?? .null }
        var data: JSONObject = [:]
        let isPatch = Int.random(in: 0...3, using: &random) == 0
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            switch Int.random(in: 0...9, using: &random) {
            case 0: data["status"] = any(["open", "completed", "cancelled", "nonsense", .null])
            case 1: data["statusDescription"] = any(["a", "b", .null])
            case 2: data["customer"] = ["givenName": any(["a", "b", .null])]
            case 3: data["customer"] = ["familyName": any(["a", "b"]), "givenName": any(["c", "d"])]
            case 4 where tokens:
                data["authenticationToken"] = any(["token-number-1-of-an-order", "token-number-2-of-an-order"])
            case 5:
                func amount() -> JSON { ["amount": any(["1.00", "2.00"]), "currency": any(["EUR", "USD"])] }
                data["payment"] = ["total": amount(), "status": any(["paid", "nonsense"])]
                if Bool.random(using: &random) {
                    data["payment"] = ["summaryItems": [["label": "a", "value": amount()]]]
                }
            default:
                let elements = ["f1", "f2", "f3"].shuffled(using: &random).prefix(2).map { identifier in
                    var element: JSONObject = ["fulfillmentIdentifier": .string(identifier)]
                    func put(_ name: String, _ values: [JSON]) {
                        if Bool.random(using: &random) { element[name] = any(values) }
                    }
                    put("fulfillmentType", ["shipping", "shipping", "pickup"])
                    put("status", ["open", "shipped", "delivered", "readyForPickup"])
                    put("carrier", isPatch ? ["DHL"] : ["DHL", .null])
                    put("displayName", ["Store"])
                    put("pickupWindowDuration", ["PT1H"])
                    put("trackingNumber", ["1", 2])
                    return JSON.object(element)
                }
                data["fulfillments"] = .array(elements)
            }
        }
        // The elements of a patch's array are whole values, in which null would stay.
        if isPatch { return .patched(data) }
        guard Bool.random(using: &random) else { return try self.merged(data) }
        var owns = [
            "authenticationToken", "customer", "customer.givenName", "fulfillments", "fulfillments.status", "payment",
            "statusDescription",
        ]
        .filter { _ in Int.random(in: 0...2, using: &random) == 0 }
        if data["status"]?.string != nil { owns.append("status") }
        return try self.merged(data, owns: owns)
    }

    /// Returns all interleavings of the sources, as indices of the sources.
    static func interleavings(_ counts: [Int]) -> [[Int]] {
        if counts.allSatisfy({ $0 == 0 }) { return [[]] }
        return counts.indices.filter { counts[$0] > 0 }.flatMap { source in
            var rest = counts
            rest[source] -= 1
            return self.interleavings(rest).map { [source] + $0 }
        }
    }
}

/// The life of an order: batches of any size, workers that crash before or after the write, and redelivered records.
private struct SourceLife {
    private let fold: OrderFold
    private let changes: [[OrderChange]]
    private var random: SeededGenerator
    private var stored: OrderState?
    private var refused: Set<String> = []

    /// The end of a life.
    struct End: Hashable {
        let document: OrderDocument?
        let token: String?
        /// The changes that became dead letters.
        let refused: Set<String>
    }

    init(_ fold: OrderFold, _ changes: [[OrderChange]], seed: UInt64) {
        self.fold = fold
        self.changes = changes
        self.random = SeededGenerator(seed: seed)
    }

    /// - Parameter order: the sources, in the order in which their changes arrive.
    mutating func run(_ order: [Int]) throws -> End {
        var next = self.changes.map { _ in 0 }
        let records = order.map { source in
            defer { next[source] += 1 }
            // Each source has a partition of its own.
            let position = ChangePosition(
                partition: Int32(source), offset: Int64(next[source]), timestampMilliseconds: 1)
            return (position, self.changes[source][next[source]])
        }
        var waiting: [(ChangePosition, OrderChange)] = []
        var index = 0
        var crashes = 0
        while index < records.count {
            let end = min(records.count, index + Int.random(in: 1...3, using: &self.random))
            // A change from before the order existed is parked or a dead letter; it is replayed before the rest.
            var batch = waiting + records[index..<end]
            if self.stored != nil, Int.random(in: 0...4, using: &self.random) == 0 {
                // Uncommitted records are redelivered, in each partition from an earlier offset on.
                let again = records[Int.random(in: 0..<max(1, index), using: &self.random)..<end]
                batch = waiting.filter { item in !again.contains { $0.0 == item.0 } } + again
            }
            let result = self.fold.fold(self.stored, changes: batch, nowEpochSeconds: Examples.now + Int64(index))
            for (change, outcome) in zip(batch, result.outcomes) {
                guard case .refused(let fault) = outcome, fault.code != .unknownOrder else { continue }
                self.refused.insert("\(change.1.source) \(change.1.id)")
            }
            if crashes < 5, Int.random(in: 0...5, using: &self.random) == 0 {
                crashes += 1
                if Bool.random(using: &self.random) { try self.write(result) }
                continue
            }
            try self.write(result)
            let exists = self.stored.map { !$0.isRemoved } ?? false
            waiting =
                exists
                ? [] : zip(batch, result.outcomes).filter { if case .refused = $0.1 { true } else { false } }.map(\.0)
            index = end
        }
        return End(document: self.stored?.document, token: self.stored?.token.rawValue, refused: self.refused)
    }

    /// Stores the state as if it were written to Redis and read back.
    private mutating func write(_ result: FoldResult) throws {
        guard let state = result.state, result.effect != .none else { return }
        self.stored = try OrderState(
            key: state.key, document: state.documentBytes, token: state.token.rawValue, version: state.version,
            modifiedEpochSeconds: state.modifiedEpochSeconds, sources: state.sourcesBytes, recent: state.recentBytes,
            contributions: state.contributionsBytes)
    }
}
