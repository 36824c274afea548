/// Folds changes into an order: decides what the order becomes, without a clock or I/O.
///
/// Source: Design §4.1, steps 2 to 4
public struct OrderFold: Sendable {
    let rules: BrandRules
    let deriveToken: @Sendable (OrderKey) -> AuthenticationToken
    private let keepsToken: KeepsToken

    /// Returns true if an order keeps the token that it has, the first one, though a change brings the second.
    public typealias KeepsToken = @Sendable (AuthenticationToken, AuthenticationToken, OrderKey) -> Bool

    /// - Parameter deriveToken: returns the token of an order that brought none (Design §5).
    public init(
        rules: BrandRules, keepsToken: @escaping KeepsToken = { _, _, _ in false },
        deriveToken: @escaping @Sendable (OrderKey) -> AuthenticationToken
    ) {
        self.rules = rules
        self.keepsToken = keepsToken
        self.deriveToken = deriveToken
    }

    /// The merchant of orders that name none.
    public var merchant: JSONObject? { self.rules.merchant }

    /// Returns the token of an order behind a change.
    ///
    /// - Parameters:
    ///   - brought: that of the change; nil if it leaves the token as it is.
    ///   - standing: that of the order; nil if it does not exist.
    private func token(
        _ brought: AuthenticationToken?, over standing: AuthenticationToken?, _ key: OrderKey
    ) -> AuthenticationToken {
        guard let brought else { return standing ?? self.deriveToken(key) }
        guard let standing, standing != brought, self.keepsToken(standing, brought, key) else { return brought }
        return standing
    }

    /// The most seconds that `createdAt` may lie in the future: clocks differ, but `updatedAt` must not be before it.
    static let futureLimitSeconds: Int64 = 86_400

    /// Folds all changes of one order into one new state.
    ///
    /// However many changes there are, the version grows by one, so a backlog costs one signature and one push.
    /// - Parameters:
    ///   - state: the stored state; nil for an order that was never seen.
    ///   - changes: the changes of this order, by offset.
    /// - Returns: one outcome for each change, and the state to store unless the effect is `.none`.
    public func fold(
        _ state: OrderState?, changes: [(ChangePosition, OrderChange)], nowEpochSeconds: Int64
    ) -> FoldResult {
        var fold = Unfinished(of: state)
        for (position, change) in changes {
            self.fold(change, at: position, into: &fold, nowEpochSeconds: nowEpochSeconds)
        }
        return self.result(of: fold, nowEpochSeconds: nowEpochSeconds)
    }

    /// A fold in progress: the result of the changes so far.
    public struct Unfinished: Sendable {
        fileprivate let state: OrderState?
        fileprivate var key: OrderKey?
        fileprivate var work: FoldWork

        public init(of state: OrderState?) {
            self.state = state
            self.work = FoldWork(state)
        }
    }

    /// Folds one more change of the same order.
    public func fold(
        _ change: OrderChange, at position: ChangePosition, into fold: inout Unfinished, nowEpochSeconds: Int64
    ) {
        if fold.key == nil { fold.key = change.key }
        fold.work.outcomes.append(.unchanged)
        self.step(&fold.work, fold.work.outcomes.count - 1, position, change, nowEpochSeconds)
    }

    /// Returns the result of all changes so far, as if they had been folded together.
    public func result(of fold: Unfinished, nowEpochSeconds: Int64) -> FoldResult {
        self.result(of: fold.work, from: fold.state, key: fold.key, nowEpochSeconds)
    }

    private func step(
        _ work: inout FoldWork, _ index: Int, _ position: ChangePosition, _ change: OrderChange, _ now: Int64
    ) {
        if work.positions.isRedelivery(position) {
            // The version is published again, since its devices may not have been notified.
            if !change.isSilent { work.isLoud = true }
            work.outcomes[index] = .skipped(.redelivered)
            return
        }
        let item = FoldWork.Item(
            index: index, position: position,
            change: self.keepingLinks(of: work.document, in: change, renewed: &work.renewedLinks),
            epochMilliseconds: change.epochMilliseconds ?? position.timestampMilliseconds)
        let existed = work.document != nil
        if let skip = work.skip(change) {
            work.outcomes[index] = .skipped(skip)
            // As after a redelivery: it may have been sent again from another cluster.
            if skip == .duplicate, !change.isSilent { work.isLoud = true }
        } else {
            self.take(item, &work, now)
        }
        // An order that does not exist remembers only its removal, so that no change is forgotten that waits for it.
        if existed || work.document != nil || work.outcomes[index].isTaken { work.positions.advance(to: position) }
    }

    private func take(_ item: FoldWork.Item, _ work: inout FoldWork, _ now: Int64) {
        let faults = item.change.sent.map { self.linkFaults(in: $0) } ?? []
        guard faults.isEmpty else {
            work.outcomes[item.index] = .refused(Self.fault(faults))
            return
        }
        let isMissing = work.document == nil
        switch item.change.kind {
        case .replaced:
            self.fold(item, &work, now)
            if isMissing, work.document != nil { self.takeEarly(&work, after: item.change, now) }
        case .removed:
            // Changes from before the removal do not apply to an order that is created later.
            _ = work.takeEarly()
            self.fold(item, &work, now)
        case .merged, .patched, .fulfillmentUpdated, .returnUpdated, .announced:
            if isMissing { self.await(item, &work, now) } else { self.fold(item, &work, now) }
        }
    }

    /// Applies a change to an existing order, or creates the order from it, and records the outcome.
    func fold(_ item: FoldWork.Item, _ work: inout FoldWork, _ now: Int64) {
        if let skip = work.skip(item.change) {
            work.outcomes[item.index] = .skipped(skip)
            return
        }
        do throws(ChangeFault) {
            let isChanged = try self.apply(item, to: &work, now)
            // Removing an order that never existed leaves no trace: no state would carry it to the next batch.
            if work.token != nil { work.recordApplied(item, isChanged: isChanged) }
        } catch {
            work.outcomes[item.index] = .refused(error)
        }
    }

    /// - Returns: whether the order changed.
    /// - Throws: if the change cannot be applied; `work` is then unchanged.
    private func apply(_ item: FoldWork.Item, to work: inout FoldWork, _ now: Int64) throws(ChangeFault) -> Bool {
        let change = item.change
        var document: JSONObject
        var owned = OwnedMembers.none
        // A new element, which the reason of a refusal names: its identifier may be mistyped.
        var appended: String?
        switch change.kind {
        case .removed:
            guard work.document != nil else { return false }
            work.document = nil
            work.contributions = nil
            work.isTouched = true
            return true
        case .announced(let touch):
            _ = try self.existing(work, change)
            work.isAnnounced = true
            if touch { work.isRenewed = true }
            return true
        case .replaced(let new):
            document = new.members
            owned = OwnedMembers(takenFrom: &document, key: change.key, rules: self.rules, isPatch: false)
        case .merged: return try self.contribute(item, to: &work, now)
        case .patched(var patch):
            let old = try self.existing(work, change)
            if work.isMerged { return try self.contribute(item, to: &work, now) }
            owned = OwnedMembers(takenFrom: &patch, key: change.key, rules: self.rules, isPatch: true)
            document = old.members.merging(patch)
        case .fulfillmentUpdated(let identifier, let patch):
            document = try self.existing(work, change).members
            if work.isMerged { return try self.contribute(item, to: &work, now) }
            if document.merge(patch, intoElementOf: "fulfillments", with: "fulfillmentIdentifier", identifier) {
                appended = "fulfillment \"\(clipped(identifier))\""
            }
        case .returnUpdated(let identifier, let patch):
            document = try self.existing(work, change).members
            if work.isMerged { return try self.contribute(item, to: &work, now) }
            if document.merge(patch, intoElementOf: "returns", with: "returnIdentifier", identifier) {
                appended = "return \"\(clipped(identifier))\""
            }
        }
        guard owned.violations.isEmpty else { throw Self.fault(owned.violations) }
        let token = self.token(owned.token, over: work.token, change.key)
        let new = OrderDocument(members: document)
        let isPlain = !work.isMerged
        if let old = work.document, token == work.token, old == new, isPlain { return false }
        let violations = self.violations(in: new, change.key, token, work.modified, now)
        guard violations.isEmpty else {
            let fault = Self.fault(violations)
            guard let appended else { throw fault }
            throw ChangeFault(
                code: fault.code,
                reason: "\(fault.reason); the order had no \(appended), so it was taken for a new one")
        }
        if case .replaced = change.kind, !isPlain { work.contributions = Contributions() }
        let isChanged = work.document != new || token != work.token
        work.document = new
        work.token = token
        work.isTouched = true
        return isChanged
    }

    func existing(_ work: FoldWork, _ change: OrderChange) throws(ChangeFault) -> OrderDocument {
        guard let document = work.document else { throw Self.unknownOrder(change.key) }
        return document
    }

    /// Returns descriptions of what the sources of a stored order sent and the order does not show.
    public func withheld(in state: OrderState, nowEpochSeconds now: Int64) -> [String] {
        guard !state.isRemoved, let parts = state.contributions, !parts.isEmpty else { return [] }
        return self.order(of: parts, state.key, state.token, state.modifiedEpochSeconds, now).withheld
    }

    /// - Parameter lacks: the violations that keep the changes so far from making an order.
    static func unknownOrder(_ key: OrderKey, lacks violations: [Violation] = []) -> ChangeFault {
        let lack = violations.isEmpty ? "" : "; with what was merged so far " + Self.fault(violations).reason
        return ChangeFault(
            code: .unknownOrder,
            reason: "there is no order \(key) to update, send waybill.order.replaced or a whole waybill.order.merged "
                + "first\(lack)")
    }

    /// Returns the reasons why a document would be refused as the state of a new order; none if it would be accepted.
    ///
    /// - Parameter document: as a publisher sends it, including members that Waybill owns.
    public func violations(
        in document: OrderDocument, of key: OrderKey, nowEpochSeconds now: Int64
    ) -> [Violation] {
        var members = document.members
        let owned = OwnedMembers(takenFrom: &members, key: key, rules: self.rules, isPatch: false)
        guard owned.violations.isEmpty else { return owned.violations }
        let token = owned.token ?? self.deriveToken(key)
        return self.violations(in: OrderDocument(members: members), key, token, nil, now)
            + self.linkFaults(in: members)
    }

    func violations(
        in document: OrderDocument, _ key: OrderKey, _ token: AuthenticationToken, _ modified: Int64?, _ now: Int64,
        limit: Int = OrderValidator.limit
    ) -> [Violation] {
        let order = document.complete(
            key: key, token: token, modifiedEpochSeconds: Self.modification(of: document, after: modified, now),
            rules: self.rules)
        var violations = OrderValidator.violations(
            in: order, allowUnknownMembers: self.rules.passUnknownMembers, nowEpochSeconds: now, limit: limit)
        let size = document.members.leastSize
        if size > OrderDocument.sizeLimit {
            violations.append(
                Violation(
                    path: "$", message: "would have \(size) bytes, an order has at most \(OrderDocument.sizeLimit)",
                    place: [], isBeyondSchema: true))
        }
        return violations
    }

    /// Returns the modification second of the next version.
    ///
    /// Wallet refuses a version that is not newer, and HTTP dates have a resolution of one second, so it grows by at
    /// least a second. An order is never updated before it was created.
    /// Source: Design §4; Wallet Orders §3.20
    static func modification(of document: OrderDocument, after last: Int64?, _ now: Int64) -> Int64 {
        let created = document.members["createdAt"]?.string.flatMap { RFC3339.instant($0)?.roundedUp } ?? now
        return max(now, last.map { min($0, RFC3339.latest) + 1 } ?? now, created)
    }

    static func version(after state: OrderState?, _ now: Int64) -> Int64 {
        guard let state else { return OrderState.firstVersion(nowEpochSeconds: now) }
        return state.version + (state.version < .max ? 1 : 0)
    }

    static func fault(_ violations: [Violation]) -> ChangeFault {
        let shown = violations.map(\.description).listed(most: 5, separator: "; ")
        return ChangeFault(code: .invalidOrder, reason: "the order would not be valid: \(shown)")
    }

    /// Makes the result, with the state to store, from the work after all changes.
    private func result(of work: FoldWork, from state: OrderState?, key: OrderKey?, _ now: Int64) -> FoldResult {
        guard let key = state?.key ?? key, let token = work.token else {
            // The order was never seen, and none of the changes created it.
            var result = FoldResult(state: state, effect: .none, outcomes: work.outcomes)
            result.withheld = work.withheld
            result.lacks = work.lacks
            return result
        }
        var next =
            state
            ?? OrderState(key: key, document: .empty, token: token, version: 0, modifiedEpochSeconds: now)
        let existed = state.map { !$0.isRemoved } ?? false
        let isChanged =
            work.document != (existed ? state?.document : nil) || (existed && token != state?.token)
            || work.contributions != state?.contributions || (work.isRenewed && work.document != nil)
        next.positions = work.positions
        next.recent = work.recent
        next.contributions = work.contributions
        var result = FoldResult(state: next, effect: .none, outcomes: work.outcomes)
        result.isAnnounced = work.isAnnounced && work.document != nil
        result.isSilent = !work.isLoud && !work.outcomes.isEmpty
        result.withheld = work.withheld
        result.lacks = work.lacks
        result.renewedLinks = work.renewedLinks
        if isChanged || (state == nil && work.isTouched) {
            next.document = work.document ?? .empty
            next.document.keepSerialized()
            next.token = token
            next.isRemoved = work.document == nil
            next.version = Self.version(after: state, now)
            next.modifiedEpochSeconds = Self.modification(of: next.document, after: state?.modifiedEpochSeconds, now)
            result.effect = next.isRemoved ? .removed : .changed
        } else if let state {
            result.effect = next == state ? .none : .advanced
        }
        result.state = state == nil && result.effect == .none ? nil : next
        return result
    }
}

extension JSONObject {
    /// Merges a patch into the element of an array that has this identifier, or appends a new element.
    ///
    /// - Returns: whether an element was appended.
    /// Source: Design §3, `waybill.fulfillment.updated` and `waybill.return.updated`
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

/// Folds the changes of orders that several sources write.
extension OrderFold {
    /// Applies a change to the part of its source.
    ///
    /// - Returns: whether the document or the token changed.
    func contribute(_ item: FoldWork.Item, to work: inout FoldWork, _ now: Int64) throws(ChangeFault) -> Bool {
        let key = item.change.key
        var parts =
            work.document.map { work.isMerged ? work.contributions ?? .init() : Contributions(before: $0) } ?? .init()
        let before = parts.token
        try self.merge(item, into: &parts, now)
        // A token that no source changed stays, even if `retoken` replaced it.
        let brought = parts.token == before ? nil : parts.token ?? self.deriveToken(key)
        let token = self.token(brought, over: work.token, key)
        let order = self.order(of: parts, key, token, work.modified, now)
        guard order.violations.isEmpty else {
            throw Self.fault(order.violations)
        }
        let isChanged = work.document != order.document || work.token != token
        work.adopt(parts, order, token)
        return isChanged
    }

    /// Returns the reason why a change would be refused whatever other sources say of its order; nil if there is none.
    public func fault(of change: OrderChange, nowEpochSeconds now: Int64) -> ChangeFault? {
        guard case .merged = change.kind else {
            let refusal = self.refusal(of: change, to: nil, nowEpochSeconds: now)
            return refusal?.code == .unknownOrder ? nil : refusal
        }
        let faults = change.sent.map { self.linkFaults(in: $0) } ?? []
        guard faults.isEmpty else { return Self.fault(faults) }
        // Most of the work would be to make an order of it.
        var parts = Contributions()
        let position = ChangePosition(partition: 0, offset: 0, timestampMilliseconds: 0)
        let item = FoldWork.Item(
            index: 0, position: position, change: change, epochMilliseconds: change.epochMilliseconds ?? 0)
        do throws(ChangeFault) { try self.merge(item, into: &parts, now) } catch { return error }
        return nil
    }

    /// Returns the reason why a change of an order would be refused now; nil if there is none.
    ///
    /// - Parameter state: the order; nil if it does not exist.
    public func refusal(of change: OrderChange, to state: OrderState?, nowEpochSeconds now: Int64) -> ChangeFault? {
        // A position in no partition, so no state has processed it already.
        let position = ChangePosition(partition: -1, offset: 0, timestampMilliseconds: now * 1000)
        let result = self.fold(state, changes: [(position, change)], nowEpochSeconds: now)
        if case .refused(let fault)? = result.outcomes.first { return fault }
        return nil
    }

    /// Keeps a change of an order that does not exist, and creates the order if the changes so far make a valid one.
    ///
    /// Regardless of which arrives first, the order exists as soon as all changes together make a valid one. One of
    /// them must be merged: updates alone make no order.
    func await(_ item: FoldWork.Item, _ work: inout FoldWork, _ now: Int64) {
        let change = item.change
        if work.early.contains(where: { $0.change.source == change.source && $0.change.id == change.id }) {
            work.outcomes[item.index] = .skipped(.duplicate)
            return
        }
        work.outcomes[item.index] = .refused(Self.unknownOrder(change.key))
        work.early.append(item)
        guard work.early.contains(where: \.isMerged) else { return }
        let parts = self.parts(&work, now)
        // Of an order that comes back too: what its sources said before the removal does not count.
        let token = parts.token ?? self.deriveToken(change.key)
        let order = self.order(of: parts, change.key, token, work.modified, now)
        work.lacks = order.violations
        work.withheld = order.withheld
        guard order.violations.isEmpty else {
            let fault = Self.unknownOrder(change.key, lacks: order.violations)
            for item in work.early { work.outcomes[item.index] = .refused(fault) }
            return
        }
        work.adopt(parts, order, token)
        for item in work.takeEarly() {
            if !item.contributes {
                self.fold(item, &work, now)
            } else if let skip = work.skip(item.change) {
                work.outcomes[item.index] = .skipped(skip)
            } else {
                work.recordApplied(item, isChanged: true)
            }
        }
    }

    /// Applies the changes that arrived before the order existed, except those that their own source superseded by the
    /// change that created it.
    func takeEarly(_ work: inout FoldWork, after creation: OrderChange, _ now: Int64) {
        for item in work.takeEarly() {
            if item.change.source == creation.source, !creation.precedes(item.change) {
                work.outcomes[item.index] = .skipped(.outOfSequence)
            } else {
                self.fold(item, &work, now)
            }
        }
    }

    /// Returns the parts that the waiting changes make, as if they arrived now. Those that their source's part cannot
    /// have no longer wait.
    private func parts(_ work: inout FoldWork, _ now: Int64) -> Contributions {
        var parts = Contributions()
        var positions = work.positions
        for item in work.early where item.contributes {
            let (source, sequence) = (item.change.source, item.change.sequence)
            if let sequence, positions.isOutOfSequence(source: source, sequence: sequence) { continue }
            do throws(ChangeFault) {
                try self.merge(item, into: &parts, now)
                if let sequence { positions.apply(source: source, sequence: sequence) }
            } catch {
                work.early.removeAll { $0.index == item.index }
                work.refusedEarly.append(item.position)
                work.outcomes[item.index] = .refused(error)
            }
        }
        return parts
    }

    /// Applies a change to the part of its source, or leaves the parts as they are.
    private func merge(
        _ item: FoldWork.Item, into parts: inout Contributions, _ now: Int64
    ) throws(ChangeFault) {
        let (change, moment) = (item.change, item.epochMilliseconds)
        var next = parts
        switch change.kind {
        case .merged(let data, let owns):
            let sent = try self.contribution(data, owns: owns, keeps: change.keeps, change.key)
            try next.merge(sent, of: change.source, owns: owns, keeps: change.keeps, at: moment)
        case .patched(let patch):
            try next.patch(try self.contribution(patch, change.key), of: change.source, at: moment)
        case .fulfillmentUpdated(_, let element):
            try next.merge(["fulfillments": [.object(element)]], of: change.source, at: moment)
        case .returnUpdated(_, let element):
            try next.merge(["returns": [.object(element)]], of: change.source, at: moment)
        case .replaced, .removed, .announced: return
        }
        var violations: [Violation] = []
        if let part = next.part(of: change.source) {
            violations = self.violations(in: part.order, change.key, self.deriveToken(change.key), nil, now)
                .filter { !$0.isMissing || (part.owns($0.place) && !part.keeps($0.place)) }
        }
        if next.leastSize > OrderDocument.sizeLimit {
            let message =
                "would have \(next.leastSize) bytes from all sources, an order has at most \(OrderDocument.sizeLimit)"
            violations.append(Violation(path: "$", message: message))
        }
        guard violations.isEmpty else { throw Self.fault(violations) }
        parts = next
    }

    /// Returns the data of a change as it goes into the part of its source.
    private func contribution(
        _ data: JSONObject, owns: OwnedPaths? = nil, keeps: KeptMembers = KeptMembers(), _ key: OrderKey
    ) throws(ChangeFault) -> JSONObject {
        var sent = data
        let service = sent["webServiceURL"]
        let owned = OwnedMembers(takenFrom: &sent, key: key, rules: self.rules, isPatch: true)
        guard owned.violations.isEmpty else { throw Self.fault(owned.violations) }
        try self.check(owns, keeps, sent)
        // Both null and the service's URL are a source's statement on whether the order is static.
        if let service { sent["webServiceURL"] = service == .null ? .null : .string(self.rules.webServiceURL) }
        if let token = owned.token { sent[OwnedMembers.tokenName] = .string(token.rawValue) }
        return sent
    }

    private func order(
        of parts: Contributions, _ key: OrderKey, _ token: AuthenticationToken, _ modified: Int64?, _ now: Int64
    ) -> Contributions.Composition {
        parts.composed { self.violations(in: $0, key, token, modified, now) }
    }

    /// Refuses a claim to a member that no order has, a typo; one to a required member that is not sent with it; and
    /// the removal of a member that no order can be without.
    private func check(_ owns: OwnedPaths?, _ keeps: KeptMembers, _ sent: JSONObject) throws(ChangeFault) {
        let needed = ["createdAt", "orderManagementURL", "status"] + (self.rules.merchant == nil ? ["merchant"] : [])
        let unsent = needed.filter {
            owns?.paths.contains($0) == true && (sent[$0] ?? .null) == .null && !keeps.paths.contains([$0])
        }
        guard unsent.isEmpty else {
            throw ChangeFault(
                code: .invalidChange,
                reason: "owns has \(unsent.map { "\"\($0)\"" }.joined(separator: " and ")), which no order can be "
                    + "without, so the data must have it as well")
        }
        var removed = needed.filter { sent[$0] == .null }.map { "$.\($0)" }
        if needed.contains("merchant"), let merchant = sent["merchant"]?.object {
            let members = OrderSchema.merchant.members.filter { $0.isRequired && merchant[$0.name] == .null }
            removed += members.map { "$.merchant.\($0.name)" }
        }
        guard removed.isEmpty else {
            throw ChangeFault(
                code: .invalidChange,
                reason: "\(removed.joined(separator: " and ")) is null, but no order can be without it")
        }
        guard let owns else { return }
        if self.rules.passUnknownMembers { return }
        for path in owns.paths {
            let name = path.prefix { $0 != "." }
            guard !OrderSchema.order.members.contains(where: { $0.name == name }) else { continue }
            throw ChangeFault(
                code: .invalidChange,
                reason: "owns has \"\(clipped(path))\", but an order has no member \(clipped(String(name)))")
        }
    }
}

extension FoldWork {
    /// Makes the order of these parts.
    fileprivate mutating func adopt(
        _ parts: Contributions, _ order: Contributions.Composition, _ token: AuthenticationToken
    ) {
        self.contributions = parts
        self.document = order.document
        self.token = token
        self.withheld = order.withheld
        self.isTouched = true
    }
}

extension FoldWork.Item {
    fileprivate var isMerged: Bool {
        if case .merged = self.change.kind { true } else { false }
    }

    /// True if the change contributes to a part of an order.
    fileprivate var contributes: Bool {
        switch self.change.kind {
        case .merged, .patched, .fulfillmentUpdated, .returnUpdated: true
        case .replaced, .removed, .announced: false
        }
    }
}

extension OrderFold {
    /// Returns the next version of an order whose document stays as it is, for use when other contents of its package
    /// have changed: pictures, the brand's defaults.
    ///
    /// Version and modification second grow as with a change; the record of applied changes stays.
    /// - Parameter state: the state of an order that was not removed.
    public static func renewed(_ state: OrderState, nowEpochSeconds: Int64) -> OrderState {
        var next = state
        next.version = Self.version(after: state, nowEpochSeconds)
        next.modifiedEpochSeconds = Self.modification(
            of: state.document, after: state.modifiedEpochSeconds, nowEpochSeconds)
        return next
    }
}

/// The choice of whether Wallet itself notifies the customer of a change: `changeNotifications` of order.json.
///
/// Source: Wallet Orders §3.1
public enum ChangeNotifications: String, Hashable, Sendable, CaseIterable {
    /// Wallet shows a notification, as it does if the member is left out.
    case enabled
    /// Wallet shows none if an associated app is installed, which then notifies the customer.
    case disabledIfAppInstalled
}
