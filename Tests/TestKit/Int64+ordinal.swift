import Model

extension Int64 {
    /// Counts an order's versions from 1, whenever its first one was made.
    public var ordinal: Int64 { self & (1 << OrderState.ordinalBits - 1) }
}
