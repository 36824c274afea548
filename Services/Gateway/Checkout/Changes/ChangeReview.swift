import Model

/// The verdict on a change of an order that should be there, by the packager's own fold. No I/O, no clock.
enum ChangeReview: Hashable, Sendable {
    case accepted
    /// There is no order to change, as far as can be seen.
    case unknownOrder
    /// The order would not be valid: the reason names the places.
    case invalid(reason: String)

    /// - Parameter state: the order as it stands; nil for one that is not there.
    init(_ change: OrderChange, to state: OrderState?, _ fold: OrderFold, nowEpochSeconds: Int64) {
        // A position of no partition, which no state has dealt with.
        let position = ChangePosition(partition: -1, offset: 0, timestampMilliseconds: nowEpochSeconds * 1000)
        let result = fold.fold(state, changes: [(position, change)], nowEpochSeconds: nowEpochSeconds)
        switch result.outcomes.first {
        case .refused(let fault)?: self = fault.code == .unknownOrder ? .unknownOrder : .invalid(reason: fault.reason)
        case .applied?, .unchanged?, .skipped?, nil: self = .accepted
        }
    }

    /// The refusal; nil if the change is accepted.
    var failure: CheckoutFailure? {
        switch self {
        case .accepted: nil
        case .unknownOrder: CheckoutFailure(.notFound, "there is no such order to change: create it with PUT first")
        case .invalid(let reason): ChangePublisher.invalid([Violation(path: "$", message: reason)])
        }
    }
}
