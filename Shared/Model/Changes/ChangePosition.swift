/// The position of a change in `waybill.order-changes`.
public struct ChangePosition: Hashable, Sendable {
    public var partition: Int32
    public var offset: Int64
    /// The record's timestamp. Tells a redelivery from a topic that was made anew and counts from 0 again.
    public var timestampMilliseconds: Int64

    public init(partition: Int32, offset: Int64, timestampMilliseconds: Int64) {
        self.partition = partition
        self.offset = offset
        self.timestampMilliseconds = timestampMilliseconds
    }
}
