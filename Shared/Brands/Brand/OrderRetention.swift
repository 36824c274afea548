public import Model

/// The time for which a brand keeps orders that ended: `retention` in `brand.json`.
public struct OrderRetention: Hashable, Sendable {
    /// A day to a century.
    static let daysRange: ClosedRange<Int64> = 1...36_500

    /// Days since the last version of an order that ended.
    public let endedDays: Int64

    /// Returns true if an order is to be removed: it is completed or cancelled, and its last version is older than the
    /// time for which it is kept.
    ///
    /// An order has no moment of its end, so its last version counts: a return, a correction or a renewal of packages
    /// begins the time anew.
    public func isOver(_ state: OrderState, nowEpochSeconds now: Int64) -> Bool {
        guard !state.isRemoved, let status = state.document.members["status"]?.string,
            status == "completed" || status == "cancelled"
        else { return false }
        return now - state.modifiedEpochSeconds > self.endedDays * 86_400
    }
}
