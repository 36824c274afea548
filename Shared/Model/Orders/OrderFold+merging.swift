/// Folds the changes of orders that several sources write.
extension OrderFold {
    /// Applies a change to the part of its source.
    ///
    /// - Returns: whether the document or the token changed.
    func contribute(_ item: FoldWork.Item, to work: inout FoldWork, _ now: Int64) throws(ChangeFault) -> Bool {
        let key = item.change.key
        var parts =
            work.document.map { work.isMerged ? work.contributions ?? .init() : Contributions(before: $0) } ?? .init()
        let given = try self.merge(item, into: &parts)
        let token = given ?? work.token ?? self.deriveToken(key)
        let (document, withheld) = parts.composed()
        let violations = self.violations(in: parts, document, key, token, work.modified, now)
        guard violations.isEmpty else {
            if work.document == nil, violations.allSatisfy(\.isMissing) {
                throw Self.unknownOrder(key, lacks: violations)
            }
            throw Self.fault(violations)
        }
        let isChanged = work.document != document || work.token != token
        work.adopt(parts, document, token, withheld)
        return isChanged
    }

    /// Keeps a change of an order that never existed, and creates the order if the changes so far make a valid one.
    ///
    /// Regardless of which arrives first, the order exists as soon as all merged changes together make a valid one.
    func await(_ item: FoldWork.Item, _ work: inout FoldWork, _ now: Int64) {
        let change = item.change
        if work.early.contains(where: { $0.change.source == change.source && $0.change.id == change.id }) {
            work.outcomes[item.index] = .skipped(.duplicate)
            return
        }
        work.outcomes[item.index] = .refused(Self.unknownOrder(change.key))
        // In the sequence of its source: the result is that of changes which arrive in it.
        let place = work.early.firstIndex { change.precedes($0.change) } ?? work.early.endIndex
        work.early.insert(item, at: place)
        guard case .merged = change.kind else { return }
        do throws(ChangeFault) {
            let (parts, token) = try self.parts(of: work.early.filter(\.isMerged), change.key)
            let (document, withheld) = parts.composed()
            let violations = self.violations(in: parts, document, change.key, token, nil, now)
            if violations.isEmpty {
                self.create(&work, parts, document, token, withheld, now)
                return
            }
            guard violations.allSatisfy(\.isMissing) else { throw Self.fault(violations) }
            let fault = Self.unknownOrder(change.key, lacks: violations)
            for item in work.early { work.outcomes[item.index] = .refused(fault) }
        } catch {
            // The others were valid so far.
            work.early.removeAll { $0.index == item.index }
            work.outcomes[item.index] = .refused(error)
        }
    }

    /// Creates the order from the merged changes, and applies all changes that arrived early.
    private func create(
        _ work: inout FoldWork, _ parts: Contributions, _ document: OrderDocument, _ token: AuthenticationToken,
        _ withheld: [String], _ now: Int64
    ) {
        let early = work.early
        let key = early[0].change.key
        work.early = []
        let contributing = early.filter(\.contributes)
        // The changes of each source are in the order in which it sent them.
        if let all = try? self.parts(of: contributing, key) {
            let (document, withheld) = all.parts.composed()
            if self.violations(in: all.parts, document, key, all.token, nil, now).isEmpty {
                work.adopt(all.parts, document, all.token, withheld)
                for item in contributing { work.recordApplied(item, isChanged: true) }
                for item in early where !item.contributes { self.fold(item, &work, now) }
                return
            }
        }
        work.adopt(parts, document, token, withheld)
        for item in early where item.isMerged { work.recordApplied(item, isChanged: true) }
        for item in early where !item.isMerged { self.fold(item, &work, now) }
    }

    /// Applies the changes that arrived before the order existed, except those that their own source superseded by the
    /// change that created it.
    func takeEarly(_ work: inout FoldWork, after creation: OrderChange, _ now: Int64) {
        let early = work.early
        work.early = []
        for item in early {
            if item.change.source == creation.source, !creation.precedes(item.change) {
                work.outcomes[item.index] = .skipped(.outOfSequence)
            } else {
                self.fold(item, &work, now)
            }
        }
    }

    /// Returns the parts that the changes make, and the order's token.
    private func parts(
        of items: [FoldWork.Item], _ key: OrderKey
    ) throws(ChangeFault) -> (parts: Contributions, token: AuthenticationToken) {
        var parts = Contributions()
        var token: AuthenticationToken?
        for item in items { token = try self.merge(item, into: &parts) ?? token }
        return (parts, token ?? self.deriveToken(key))
    }

    /// - Returns: the token that the change brought.
    private func merge(
        _ item: FoldWork.Item, into parts: inout Contributions
    ) throws(ChangeFault) -> AuthenticationToken? {
        let (change, moment) = (item.change, item.epochMilliseconds)
        var owned = OwnedMembers.none
        switch change.kind {
        case .merged(var sent, let owns):
            let service = sent["webServiceURL"]
            owned = OwnedMembers(takenFrom: &sent, key: change.key, rules: self.rules, isPatch: true)
            guard owned.violations.isEmpty else { throw Self.fault(owned.violations) }
            try self.check(owns, sent)
            // Both null and the service's URL are a source's statement on whether the order is static.
            if let service { sent["webServiceURL"] = service == .null ? .null : .string(self.rules.webServiceURL) }
            try parts.merge(sent, of: change.source, owns: owns, at: moment)
        case .patched(var patch):
            owned = OwnedMembers(takenFrom: &patch, key: change.key, rules: self.rules, isPatch: true)
            guard owned.violations.isEmpty else { throw Self.fault(owned.violations) }
            try parts.patch(patch, of: change.source, at: moment)
        case .fulfillmentUpdated(_, let element):
            try parts.merge(["fulfillments": [.object(element)]], of: change.source, at: moment)
        case .returnUpdated(_, let element):
            try parts.merge(["returns": [.object(element)]], of: change.source, at: moment)
        case .replaced, .removed, .announced: break
        }
        return owned.token
    }

    /// Refuses a claim to a member that no order has, a typo, and one to a required member that is not sent with it.
    private func check(_ owns: OwnedPaths?, _ sent: JSONObject) throws(ChangeFault) {
        guard let owns else { return }
        let needed = ["createdAt", "orderManagementURL", "status"] + (self.rules.merchant == nil ? ["merchant"] : [])
        if let name = needed.first(where: { owns.paths.contains($0) && (sent[$0] ?? .null) == .null }) {
            throw ChangeFault(
                code: .invalidChange,
                reason: "owns has \"\(name)\", which no order can be without, so the data must have it as well")
        }
        if self.rules.passUnknownMembers { return }
        for path in owns.paths {
            let name = path.prefix { $0 != "." }
            guard !OrderSchema.order.members.contains(where: { $0.name == name }) else { continue }
            throw ChangeFault(
                code: .invalidChange,
                reason: "owns has \"\(clipped(path))\", but an order has no member \(clipped(String(name)))")
        }
    }

    private func violations(
        in parts: Contributions, _ document: OrderDocument, _ key: OrderKey, _ token: AuthenticationToken,
        _ modified: Int64?, _ now: Int64
    ) -> [Violation] {
        var violations = self.violations(in: document, key, token, modified, now)
        let size = parts.leastSize
        if size > OrderDocument.sizeLimit {
            violations.append(
                Violation(
                    path: "$",
                    message:
                        "would have \(size) bytes from all sources, an order has at most \(OrderDocument.sizeLimit)"))
        }
        return violations
    }
}

extension FoldWork {
    /// Makes the order of these parts.
    fileprivate mutating func adopt(
        _ parts: Contributions, _ document: OrderDocument, _ token: AuthenticationToken, _ withheld: [String]
    ) {
        self.contributions = parts
        self.document = document
        self.token = token
        self.withheld = withheld
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
