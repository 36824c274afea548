/// The result of a fold of an order.
public struct FoldResult: Hashable, Sendable {
    /// The action that the state needs.
    public enum Effect: Hashable, Sendable {
        /// Nothing changed, so there is nothing to store.
        case none
        /// Positions advanced but the order did not change: it is stored, but neither signed nor pushed.
        case advanced
        /// A new version.
        case changed
        /// The order was removed.
        case removed
    }

    /// The state after the fold; nil for an order that is still unknown.
    public var state: OrderState?
    public var effect: Effect
    /// One outcome for each change, in the order of the changes.
    public var outcomes: [ChangeOutcome]
    /// True if the version must be published again although it is not new.
    public var isAnnounced = false
    /// True if no device is to be notified of what is published.
    public var isSilent = false
    /// Elements that the order does not show yet, and the members that they lack; also those of changes that wait.
    public var withheld: [String] = []
    /// The reasons why the changes that wait for an order make none; empty also if none of them could.
    public var lacks: [Violation] = []
    /// URLs that grant access to the same files as those that the order has, by these.
    public var renewedLinks: [String: String] = [:]

    public init(state: OrderState?, effect: Effect, outcomes: [ChangeOutcome]) {
        self.state = state
        self.effect = effect
        self.outcomes = outcomes
    }
}

/// The outcome of one change.
public enum ChangeOutcome: Hashable, Sendable {
    /// The reason why a change was skipped.
    public enum Skip: String, CaseIterable, Hashable, Sendable {
        /// Its position was processed before.
        case redelivered
        /// Its `source` and `id` were applied before.
        case duplicate
        /// A later change of its source was applied before.
        case outOfSequence = "out_of_sequence"
        /// It is about another version than the present one.
        case anotherVersion = "another_version"
    }

    case applied
    /// The change left the order as it was.
    case unchanged
    case skipped(Skip)
    /// The change cannot be applied and becomes a dead letter.
    case refused(ChangeFault)

    /// True if the change took effect, even if that left the order as it was.
    public var isTaken: Bool { self == .applied || self == .unchanged }

    /// True if the change was applied before: at its position, or at another one.
    public var isRepeated: Bool { self == .skipped(.redelivered) || self == .skipped(.duplicate) }
}

/// The state of an order between two changes of a fold.
struct FoldWork {
    /// A change and the index of its outcome.
    struct Item {
        let index: Int
        let position: ChangePosition
        let change: OrderChange
        /// The moment when the change was written.
        let epochMilliseconds: Int64
    }

    /// The document; nil for an order that was never seen or was removed.
    var document: OrderDocument?
    /// The token; it survives a removal, so that devices that hold it can fetch the order if it is replaced.
    var token: AuthenticationToken?
    var positions: AppliedPositions
    var recent: RecentChanges
    /// As in `OrderState`.
    var contributions: Contributions?
    let modified: Int64?
    /// The version before these changes; nil for an order that was never seen.
    let version: Int64?
    /// One outcome for each change.
    var outcomes: [ChangeOutcome] = []
    /// Changes of an order that does not exist, in the order of their arrival. They are not remembered
    /// as seen as long as they wait: they are delivered again.
    var early: [Item] = []
    /// The positions of changes that were refused while the order did not exist.
    var refusedEarly: [ChangePosition] = []
    /// True if a change wrote or removed the document.
    var isTouched = false
    /// True if a new version must be made even if nothing changed.
    var isRenewed = false
    var isAnnounced = false
    /// True if something happened that devices must be notified of.
    var isLoud = false
    /// Elements that the contributions do not show yet.
    var withheld: [String] = []
    /// As in `FoldResult`.
    var lacks: [Violation] = []
    var renewedLinks: [String: String] = [:]

    /// True if the document is made of contributions.
    var isMerged: Bool { self.contributions?.isEmpty == false }

    init(_ state: OrderState?) {
        self.document = state.flatMap { $0.isRemoved ? nil : $0.document }
        self.token = state?.token
        self.positions = state?.positions ?? AppliedPositions()
        self.recent = state?.recent ?? RecentChanges()
        self.contributions = state?.contributions
        self.modified = state?.modifiedEpochSeconds
        self.version = state?.version
    }

    /// Returns the reason to skip a change, or nil.
    func skip(_ change: OrderChange) -> ChangeOutcome.Skip? {
        if self.recent.contains(source: change.source, id: change.id) { return .duplicate }
        if case .removed = change.kind, let version = change.ifVersion,
            version != self.version || self.isTouched || self.isRenewed
        {
            return .anotherVersion
        }
        guard let sequence = change.sequence else { return nil }
        return self.positions.isOutOfSequence(source: change.source, sequence: sequence) ? .outOfSequence : nil
    }

    /// Ends the waiting of changes, which are remembered as seen from now on.
    mutating func takeEarly() -> [Item] {
        for position in self.early.map(\.position) + self.refusedEarly { self.positions.advance(to: position) }
        self.refusedEarly = []
        self.lacks = []
        if !self.isMerged { self.withheld = [] }
        defer { self.early = [] }
        return self.early
    }

    /// Records that a change was applied.
    mutating func recordApplied(_ item: Item, isChanged: Bool) {
        let change = item.change
        if let sequence = change.sequence { self.positions.apply(source: change.source, sequence: sequence) }
        self.recent.append(source: change.source, id: change.id)
        if isChanged, !change.isSilent { self.isLoud = true }
        self.outcomes[item.index] = isChanged ? .applied : .unchanged
    }
}
