/// The result of a fold of an order.
public struct FoldResult: Hashable, Sendable {
    /// The action that the state needs.
    public enum Effect: Hashable, Sendable {
        /// Nothing moved: there is nothing to store.
        case none
        /// Positions moved, the order did not: to be stored, neither signed nor pushed.
        case advanced
        /// A new version.
        case changed
        /// The order is gone.
        case removed
    }

    /// Nil for an order that is still unknown.
    public var state: OrderState?
    public var effect: Effect
    /// One for each change, in their order.
    public var outcomes: [ChangeOutcome]
    /// The version is to be published once more, though it is no new one.
    public var isAnnounced = false
    /// If something is published, no device is to be told of it.
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
        /// Its position was dealt with before.
        case redelivered
        /// Its `source` and `id` were applied before.
        case duplicate
        /// A later one of its source was applied before.
        case outOfSequence = "out_of_sequence"
    }

    case applied
    /// It said what the order already was.
    case unchanged
    case skipped(Skip)
    /// It cannot be applied: a dead letter.
    case refused(ChangeFault)
}
