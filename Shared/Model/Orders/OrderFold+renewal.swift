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
