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
        let token = (parts.token == before ? work.token : parts.token) ?? self.deriveToken(key)
        let order = self.order(of: parts, key, token, work.modified, now)
        guard order.violations.isEmpty else {
            throw Self.fault(order.violations)
        }
        let isChanged = work.document != order.document || work.token != token
        work.adopt(parts, order, token)
        return isChanged
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
            try next.merge(
                try self.contribution(data, owns: owns, change.key), of: change.source, owns: owns, at: moment)
        case .patched(let patch):
            try next.patch(try self.contribution(patch, owns: nil, change.key), of: change.source, at: moment)
        case .fulfillmentUpdated(_, let element):
            try next.merge(["fulfillments": [.object(element)]], of: change.source, at: moment)
        case .returnUpdated(_, let element):
            try next.merge(["returns": [.object(element)]], of: change.source, at: moment)
        case .replaced, .removed, .announced: return
        }
        var violations: [Violation] = []
        if let part = next.part(of: change.source) {
            violations = self.violations(in: part.order, change.key, self.deriveToken(change.key), nil, now)
                .filter { !$0.isMissing || part.owns($0.place) }
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
        _ data: JSONObject, owns: OwnedPaths?, _ key: OrderKey
    ) throws(ChangeFault) -> JSONObject {
        var sent = data
        let service = sent["webServiceURL"]
        let owned = OwnedMembers(takenFrom: &sent, key: key, rules: self.rules, isPatch: true)
        guard owned.violations.isEmpty else { throw Self.fault(owned.violations) }
        try self.check(owns, sent)
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
    private func check(_ owns: OwnedPaths?, _ sent: JSONObject) throws(ChangeFault) {
        var needed = ["createdAt", "orderManagementURL", "status"] + (self.rules.merchant == nil ? ["merchant"] : [])
        if let owns, let name = needed.first(where: { owns.paths.contains($0) && (sent[$0] ?? .null) == .null }) {
            throw ChangeFault(
                code: .invalidChange,
                reason: "owns has \"\(name)\", which no order can be without, so the data must have it as well")
        }
        var path = "$"
        var removed = needed.first { sent[$0] == .null }
        if removed == nil, needed.contains("merchant"), let merchant = sent["merchant"]?.object {
            needed = OrderSchema.merchant.members.filter(\.isRequired).map(\.name)
            path = "$.merchant"
            removed = needed.first { merchant[$0] == .null }
        }
        if let removed {
            throw ChangeFault(
                code: .invalidChange, reason: "\(path).\(removed) is null, but no order can be without it")
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
