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
    /// Elements that the order does not show yet, and the members that they lack.
    public var withheld: [String] = []

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
    }

    case applied
    /// The change left the order as it was.
    case unchanged
    case skipped(Skip)
    /// The change cannot be applied and becomes a dead letter.
    case refused(ChangeFault)

    /// True if the change took effect, even if that left the order as it was.
    public var isTaken: Bool { self == .applied || self == .unchanged }
}
