extension OrderFold {
    /// The next version of an order whose document stays as it is, for when what its package shows beside the document
    /// has changed: pictures, the brand's defaults.
    ///
    /// Version and modification second grow as with a change, what was applied stays.
    /// - Parameter state: not of a removed order.
    public static func renewed(_ state: OrderState, nowEpochSeconds: Int64) -> OrderState {
        var next = state
        next.version = Self.version(after: state, nowEpochSeconds)
        next.modifiedEpochSeconds = Self.modification(
            of: state.document, after: state.modifiedEpochSeconds, nowEpochSeconds)
        return next
    }
}
