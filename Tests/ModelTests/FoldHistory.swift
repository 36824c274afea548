import TestKit

@testable import Model

/// The simulated history of one order: several sources, several partitions, and workers that crash at any moment.
///
/// The records of a partition arrive in order, those of different partitions in any order. Uncommitted records are
/// redelivered, and sometimes committed ones too.
struct FoldHistory {
    private struct Record {
        let position: ChangePosition
        let change: OrderChange
        var isRemoval: Bool { if case .removed = self.change.kind { true } else { false } }
    }

    /// The faults found; empty if the history is correct.
    var faults: [String] = []
    /// The number of occurrences of each event.
    private(set) var seen: [String: Int] = [:]
    /// The state in Redis.
    private(set) var stored: OrderState?
    /// The reference, given each change that took effect in the stored state once, in order of arrival.
    private var reference = OrderFoldReference()

    private var random: SeededGenerator
    private let fold: OrderFold
    private let key: OrderKey
    private let base: JSON
    private var partitions: [[Record]] = []
    /// The offset at which the next worker begins to read, by partition.
    private var committed: [Int] = []
    /// The number of records that took effect in the stored state, by partition.
    private var taken: [Int] = []
    /// The records that wait until the removed order exists again, in the order of their arrival.
    private var waiting: [Record] = []
    /// The number of records committed while no order existed that could remember them, by partition.
    private var unremembered: [Int] = []
    private var now = Examples.now
    private var made = 0
    private var all: [OrderChange] = []
    private var generation: Int64 = 0
    private var steps = 0

    init(seed: UInt64, base: JSON) throws {
        self.random = SeededGenerator(seed: seed)
        self.key = try Examples.key(base)
        self.fold = Examples.fold(try Examples.rules(base))
        self.base = ["updatedAt", "orderType", "orderTypeIdentifier", "orderIdentifier"].reduce(base) {
            $0.setting(nil, $1)
        }
        self.fill()
    }

    var isUnfinished: Bool { self.faults.isEmpty && zip(self.partitions, self.committed).contains { $0.count > $1 } }

    /// Fills a new topic with records.
    private mutating func fill() {
        let count = Int.random(in: 1...3, using: &self.random)
        self.partitions = (0..<count).map { partition in
            (0..<Int.random(in: 1...40, using: &self.random)).map { offset in
                // Producers' clocks differ; timestamps in a recreated topic are all later.
                let timestamp = 1000 * self.generation + Int64.random(in: 0..<900, using: &self.random)
                let position = ChangePosition(
                    partition: Int32(partition), offset: Int64(offset), timestampMilliseconds: timestamp)
                return Record(position: position, change: self.change())
            }
        }
        self.committed = self.partitions.map { _ in 0 }
        self.taken = self.committed
        self.unremembered = self.committed
    }

    /// Lets a worker process a batch and possibly crash.
    mutating func step() throws {
        self.steps += 1
        let (ends, new) = self.batch()
        let batch = self.waiting + new
        let result = self.fold.fold(
            self.stored, changes: batch.map { ($0.position, $0.change) }, nowEpochSeconds: self.now)
        self.check(result, of: batch)
        // Folding one by one must give the same result.
        var singly = OrderFold.Unfinished(of: self.stored)
        for item in batch {
            self.fold.fold(item.change, at: item.position, into: &singly, nowEpochSeconds: self.now)
        }
        if self.fold.result(of: singly, nowEpochSeconds: self.now) != result {
            self.faults.append("one by one the result is another")
        }
        self.now += Int64.random(in: -1...2, using: &self.random)
        // After 200 steps no worker crashes, so that the history ends.
        switch Int.random(in: self.steps > 200 ? 3...9 : 0...9, using: &self.random) {
        case 0: self.note("crash before the write")
        // A removal that is delivered again, to an order that does not exist, ends other waiting than before.
        case 1 where result.exists || !new.contains(where: \.isRemoval):
            self.note("crash before the commit")
            try self.write(result, batch, new)
        case 2 where self.generation < 2 && self.steps > 5:
            // Unread records are gone, offsets count from 0, and the consumer group starts at the beginning.
            self.note("topic made anew")
            self.generation += 1
            self.fill()
        case let chance:
            try self.write(result, batch, new)
            self.committed = ends
            if self.stored?.isRemoved ?? true { self.unremembered = ends }
            if chance == 3 { self.takeBack() }
        }
    }

    /// Returns the next records of some partitions, interleaved, without those that wait.
    private mutating func batch() -> (ends: [Int], records: [Record]) {
        var ends = self.committed
        var records: [Record] = []
        for _ in 0..<Int.random(in: 1...8, using: &self.random) {
            guard
                let partition = self.partitions.indices.filter({ ends[$0] < self.partitions[$0].count })
                    .randomElement(using: &self.random)
            else { break }
            let record = self.partitions[partition][ends[partition]]
            if !self.waiting.contains(where: { $0.position == record.position }) { records.append(record) }
            ends[partition] += 1
        }
        return (ends, records)
    }

    /// Moves a committed offset back, as if a commit had been lost.
    private mutating func takeBack() {
        guard self.steps < 200, let partition = self.partitions.indices.randomElement(using: &self.random) else {
            return
        }
        self.note("partition taken back")
        let range = self.unremembered[partition]...self.committed[partition]
        self.committed[partition] = Int.random(in: range, using: &self.random)
    }

    /// - Parameter new: those of the batch that did not wait.
    private mutating func write(_ result: FoldResult, _ batch: [Record], _ new: [Record]) throws {
        // As long as there never was an order, nothing is remembered and nothing has an effect.
        guard let state = result.state else { return }
        self.waiting = []
        for (record, outcome) in zip(batch, result.outcomes) where !result.exists {
            if record.isRemoval, outcome.isTaken { self.waiting = [] }
            if case .refused(let fault) = outcome, fault.code == .unknownOrder { self.waiting.append(record) }
        }
        for record in new where record.position.offset >= self.taken[Int(record.position.partition)] {
            self.taken[Int(record.position.partition)] = Int(record.position.offset) + 1
            self.reference.take(record.change)
        }
        let order = state.isRemoved ? nil : JSON.object(state.document.members)
        if order != self.reference.order { self.faults.append("the order is not what its changes make of it") }
        // The token of an order created and removed within a batch was never published.
        if state.isRemoved, self.reference.token != nil { self.reference.token = state.token.rawValue }
        if let token = self.reference.token, token != state.token.rawValue { self.faults.append("another token") }
        guard result.effect != .none else { return }
        self.stored = try OrderState(
            key: state.key, document: state.documentBytes, token: state.token.rawValue, version: state.version,
            modifiedEpochSeconds: state.modifiedEpochSeconds, sources: state.sourcesBytes, recent: state.recentBytes)
        if self.stored != state { self.faults.append("Redis does not give back what was written") }
    }

    /// Expects each version to be one higher and at least a second later, and only a changed order to get one.
    private mutating func check(_ result: FoldResult, of batch: [Record]) {
        func expect(_ holds: Bool, _ what: String) { if !holds { self.faults.append(what) } }
        let (old, new) = (self.stored, result.state)
        expect(result.outcomes.count == batch.count, "one outcome per change")
        for outcome in result.outcomes {
            switch outcome {
            case .applied: self.note("applied")
            case .unchanged: self.note("unchanged")
            case .skipped(let skip): self.note("\(skip)")
            case .refused: self.note("refused")
            }
        }
        self.note("\(result.effect)")
        switch result.effect {
        case .none: expect(new == old, "no effect, and another state")
        case .advanced:
            expect(new?.version == old?.version, "a version without a change")
            expect(new?.modifiedEpochSeconds == old?.modifiedEpochSeconds, "updatedAt moved without a change")
            expect(new?.document == old?.document && new?.token == old?.token, "another order under an old version")
            expect(new?.isRemoved == old?.isRemoved, "removed under an old version")
        case .changed, .removed:
            let first = OrderState.firstVersion(nowEpochSeconds: self.now)
            expect(new?.version == old.map { $0.version + 1 } ?? first, "versions grow by one")
            expect(new?.modifiedEpochSeconds ?? 0 > old?.modifiedEpochSeconds ?? 0, "updatedAt does not grow")
            expect(new?.isRemoved == (result.effect == .removed), "removed or not")
            let isAsItWas =
                new?.document == old?.document && new?.isRemoved == old?.isRemoved && new?.token == old?.token
            expect(!isAsItWas, "a version for an order that is as it was")
        }
    }

    private mutating func note(_ what: String) { self.seen[what, default: 0] += 1 }

    // MARK: changes

    /// Returns a change from one of three sources. Two of them number their changes, and some of these arrive late.
    private mutating func change() -> OrderChange {
        self.made += 1
        // An earlier change is sent again, at a new offset.
        if Int.random(in: 0..<6, using: &self.random) == 0,
            let copy = self.all.suffix(45).randomElement(using: &self.random)
        {
            return copy
        }
        let source = Int.random(in: 0..<3, using: &self.random)
        let late = Int.random(in: 0..<3, using: &self.random) == 0 ? 7 : 0
        let change = OrderChange(
            key: self.key, source: "/\(source)", id: "\(self.made)",
            sequence: source == 0 ? nil : "\(max(0, self.made - late))", kind: self.kind())
        self.all.append(change)
        return change
    }

    private mutating func kind() -> OrderChange.Kind {
        let text = JSON.string("\(Int.random(in: 0..<4, using: &self.random))")
        let name = "n\(Int.random(in: 0..<3, using: &self.random))"
        switch Int.random(in: 0..<14, using: &self.random) {
        case 0: return .removed
        case 1...3: return .replaced(OrderDocument(members: self.base.setting(text, "orderNumber").object ?? [:]))
        case 4, 5: return .patched(["orderNumber": Bool.random(using: &self.random) ? .null : text])
        case 6: return .patched(["customer": ["givenName": text, "phoneNumber": .null]])
        case 7:
            let token = "token-number-\(Int.random(in: 0..<3, using: &self.random))-of-an-order"
            return .patched(
                Bool.random(using: &self.random) ? ["status": "open"] : ["authenticationToken": .string(token)])
        case 8: return .patched(["status": "nonsense"])
        case 9...11:
            return .fulfillmentUpdated(
                identifier: name,
                [
                    "fulfillmentIdentifier": .string(name), "fulfillmentType": "shipping", "notes": text,
                    "status": "open",
                ])
        default:
            return .returnUpdated(
                identifier: name, ["returnIdentifier": .string(name), "status": "open", "returnNumber": text])
        }
    }
}

extension FoldResult {
    fileprivate var exists: Bool { self.state.map { !$0.isRemoved } ?? false }
}
