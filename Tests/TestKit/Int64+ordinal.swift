import Model

extension Int64 {
    /// The position of a version among those of its order, counted from 1 whenever the first one was made.
    public var ordinal: Int64 { self & (1 << OrderState.ordinalBits - 1) }
}
