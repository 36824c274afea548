/// Folds changes into an order: the decision what an order becomes, without a clock and without I/O.
///
/// Source: DESIGN.md §4 steps 2 to 4
public struct OrderFold: Sendable {
    private let rules: BrandRules
    private let deriveToken: @Sendable (OrderKey) -> AuthenticationToken

    /// - Parameter deriveToken: the token of an order that brought none (DESIGN.md §5).
    public init(rules: BrandRules, deriveToken: @escaping @Sendable (OrderKey) -> AuthenticationToken) {
        self.rules = rules
        self.deriveToken = deriveToken
    }

    /// How far a future `createdAt` may lie ahead: clocks differ, but `updatedAt` must not be before it.
    static let futureLimitSeconds: Int64 = 86_400

    /// Folds all changes of one order into one new state.
    ///
    /// However many changes there are, the version grows by one, so a backlog costs one signature and one push.
    /// - Parameters:
    ///   - state: as stored, nil for an order that was never seen.
    ///   - changes: of this one order, in the order of their offsets.
    /// - Returns: one outcome for each change, and the state to store unless the effect is `.none`.
    public func fold(
        _ state: OrderState?, changes: [(ChangePosition, OrderChange)], nowEpochSeconds: Int64
    ) -> FoldResult {
        var work = FoldWork(state)
        var outcomes: [ChangeOutcome] = []
        outcomes.reserveCapacity(changes.count)
        for (position, change) in changes {
            outcomes.append(self.step(&work, position, change, nowEpochSeconds))
        }
        return self.result(of: work, from: state, key: changes.first?.1.key, nowEpochSeconds, outcomes)
    }

    private func step(
        _ work: inout FoldWork, _ position: ChangePosition, _ change: OrderChange, _ now: Int64
    ) -> ChangeOutcome {
        if work.positions.isRedelivery(position) { return .skipped(.redelivered) }
        work.positions.advance(to: position)
        if work.recent.contains(source: change.source, id: change.id) { return .skipped(.duplicate) }
        if let sequence = change.sequence,
            work.positions.isOutOfSequence(source: change.source, sequence: sequence)
        {
            return .skipped(.outOfSequence)
        }
        let isChanged: Bool
        do throws(ChangeFault) {
            isChanged = try self.apply(change, to: &work, now)
        } catch {
            return .refused(error)
        }
        // To remove what never was leaves no trace: there is no order that would keep it to the next batch.
        guard work.token != nil else { return .unchanged }
        if let sequence = change.sequence { work.positions.apply(source: change.source, sequence: sequence) }
        work.recent.append(source: change.source, id: change.id)
        return isChanged ? .applied : .unchanged
    }

    /// - Returns: whether the order is another one now.
    /// - Throws: when it cannot be applied; `work` is as it was then.
    private func apply(_ change: OrderChange, to work: inout FoldWork, _ now: Int64) throws(ChangeFault) -> Bool {
        var document: JSONObject
        let owned: OwnedMembers
        // An element that was not there, for the reason of a refusal: its identifier may be mistyped.
        var appended: String?
        switch change.kind {
        case .removed:
            guard work.document != nil else { return false }
            work.document = nil
            work.isTouched = true
            return true
        case .replaced(let new):
            document = new.members
            owned = OwnedMembers(takenFrom: &document, key: change.key, rules: self.rules, isPatch: false)
        case .patched(var patch):
            let old = try self.existing(work, change)
            owned = OwnedMembers(takenFrom: &patch, key: change.key, rules: self.rules, isPatch: true)
            document = old.members.merging(patch)
        case .fulfillmentUpdated(let identifier, let patch):
            document = try self.existing(work, change).members
            owned = .none
            if document.merge(patch, intoElementOf: "fulfillments", with: "fulfillmentIdentifier", identifier) {
                appended = "fulfillment \"\(clipped(identifier))\""
            }
        case .returnUpdated(let identifier, let patch):
            document = try self.existing(work, change).members
            owned = .none
            if document.merge(patch, intoElementOf: "returns", with: "returnIdentifier", identifier) {
                appended = "return \"\(clipped(identifier))\""
            }
        }
        guard owned.violations.isEmpty else { throw Self.fault(owned.violations) }
        let token = owned.token ?? work.token ?? self.deriveToken(change.key)
        let new = OrderDocument(members: document)
        if let old = work.document, token == work.token, old == new { return false }
        do throws(ChangeFault) {
            try self.validate(new, change.key, token, work.modified, now)
        } catch {
            guard let appended else { throw error }
            throw ChangeFault(
                code: error.code,
                reason: "\(error.reason); the order had no \(appended), so it was taken for a new one")
        }
        work.document = new
        work.token = token
        work.isTouched = true
        return true
    }

    private func existing(_ work: FoldWork, _ change: OrderChange) throws(ChangeFault) -> OrderDocument {
        guard let document = work.document else {
            throw ChangeFault(
                code: .unknownOrder,
                reason: "there is no order \(change.key) to update, send waybill.order.replaced first")
        }
        return document
    }

    /// The reasons for which a document would be refused as the state of an order that is not there yet; none for one
    /// that would be taken.
    ///
    /// - Parameter document: as a publisher sends it, members that Waybill owns included.
    public func violations(
        in document: OrderDocument, of key: OrderKey, nowEpochSeconds now: Int64
    ) -> [Violation] {
        var members = document.members
        let owned = OwnedMembers(takenFrom: &members, key: key, rules: self.rules, isPatch: false)
        guard owned.violations.isEmpty else { return owned.violations }
        let token = owned.token ?? self.deriveToken(key)
        return self.violations(OrderDocument(members: members), key, token, nil, now)
    }

    private func validate(
        _ document: OrderDocument, _ key: OrderKey, _ token: AuthenticationToken, _ modified: Int64?, _ now: Int64
    ) throws(ChangeFault) {
        let violations = self.violations(document, key, token, modified, now)
        guard violations.isEmpty else { throw Self.fault(violations) }
    }

    private func violations(
        _ document: OrderDocument, _ key: OrderKey, _ token: AuthenticationToken, _ modified: Int64?, _ now: Int64
    ) -> [Violation] {
        let order = document.complete(
            key: key, token: token, modifiedEpochSeconds: Self.modification(of: document, after: modified, now),
            rules: self.rules)
        var violations = OrderValidator.violations(
            in: order, allowUnknownMembers: self.rules.passUnknownMembers, nowEpochSeconds: now)
        let size = document.members.leastSize
        if size > OrderDocument.sizeLimit {
            violations.append(
                Violation(
                    path: "$", message: "would have \(size) bytes, an order has at most \(OrderDocument.sizeLimit)"))
        }
        return violations
    }

    /// The moment of the next version.
    ///
    /// Wallet refuses what is not newer and HTTP dates have one-second steps, so it grows by a second at least; and an
    /// order is not updated before it was created.
    /// Source: DESIGN.md §4; Wallet Orders §3.20
    static func modification(of document: OrderDocument, after last: Int64?, _ now: Int64) -> Int64 {
        let created = document.members["createdAt"]?.string.flatMap { RFC3339.instant($0)?.roundedUp } ?? now
        return max(now, last.map { min($0, RFC3339.latest) + 1 } ?? now, created)
    }

    private static func fault(_ violations: [Violation]) -> ChangeFault {
        let shown = violations.prefix(5).map(\.description).joined(separator: "; ")
        let rest = violations.count > 5 ? "; and \(violations.count - 5) more" : ""
        return ChangeFault(code: .invalidOrder, reason: "the order would not be valid: \(shown)\(rest)")
    }

    /// What is to be stored and what it means, from what the changes made of the state.
    private func result(
        of work: FoldWork, from state: OrderState?, key: OrderKey?, _ now: Int64, _ outcomes: [ChangeOutcome]
    ) -> FoldResult {
        guard let key = state?.key ?? key, let token = work.token else {
            // Never seen, and none of the changes made an order of it.
            return FoldResult(state: state, effect: .none, outcomes: outcomes)
        }
        var next =
            state
            ?? OrderState(key: key, document: .empty, token: token, version: 0, modifiedEpochSeconds: now)
        let existed = state.map { !$0.isRemoved } ?? false
        let isChanged = work.document != (existed ? state?.document : nil) || (existed && token != state?.token)
        next.positions = work.positions
        next.recent = work.recent
        if isChanged || (state == nil && work.isTouched) {
            next.document = work.document ?? .empty
            next.document.keepSerialized()
            next.token = token
            next.isRemoved = work.document == nil
            next.version += next.version < .max ? 1 : 0
            next.modifiedEpochSeconds = Self.modification(of: next.document, after: state?.modifiedEpochSeconds, now)
            return FoldResult(state: next, effect: next.isRemoved ? .removed : .changed, outcomes: outcomes)
        }
        guard let state else { return FoldResult(state: nil, effect: .none, outcomes: outcomes) }
        return FoldResult(state: next, effect: next == state ? .none : .advanced, outcomes: outcomes)
    }
}

/// The order between two changes of a fold.
private struct FoldWork {
    /// Nil for an order that does not exist: never seen, or removed.
    var document: OrderDocument?
    /// Survives a removal, so that devices that hold it can fetch the order when it comes back.
    var token: AuthenticationToken?
    var positions: AppliedPositions
    var recent: RecentChanges
    let modified: Int64?
    /// Whether a change was applied.
    var isTouched = false

    init(_ state: OrderState?) {
        self.document = state.flatMap { $0.isRemoved ? nil : $0.document }
        self.token = state?.token
        self.positions = state?.positions ?? AppliedPositions()
        self.recent = state?.recent ?? RecentChanges()
        self.modified = state?.modifiedEpochSeconds
    }
}

extension JSONObject {
    /// Merges a patch into the element of an array that has an identifier; appends one when there is none.
    ///
    /// - Returns: whether it was appended.
    /// Source: DESIGN.md §3, `waybill.fulfillment.updated` and `waybill.return.updated`
    fileprivate mutating func merge(
        _ patch: JSONObject, intoElementOf array: String, with member: String, _ identifier: String
    ) -> Bool {
        var elements = self[array]?.array ?? []
        let wanted = JSON.string(identifier)
        let index = elements.firstIndex { $0.object?[member] == wanted }
        if let index {
            elements[index] = .object((elements[index].object ?? JSONObject()).merging(patch))
        } else {
            elements.append(.object(JSONObject().merging(patch)))
        }
        self[array] = .array(elements)
        return index == nil
    }
}
