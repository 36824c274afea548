import Model

/// The verdict of the packager's own fold on a change of an order that should exist. No I/O, no clock.
enum ChangeReview: Hashable, Sendable {
    case accepted
    /// Apparently there is no order to change.
    case unknownOrder
    /// The order would become invalid; the reason names the places.
    case invalid(reason: String)

    /// - Parameter state: the current state of the order; nil if it does not exist.
    init(_ change: OrderChange, to state: OrderState?, _ fold: OrderFold, nowEpochSeconds: Int64) {
        // A position in no partition, so no state has processed it already.
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
