/// The records that a worker puts off for later, and those that it takes up again.
public struct KafkaDeferral: Sendable {
    /// Records in hand that are put off: they are not in hand any more, and not done.
    public var putOff: [KafkaReceipt] = []
    /// Records that were put off and are in hand again.
    public var again: [KafkaReceipt] = []
    /// By partition the first offset of all that is put off from now on; nil: nothing is.
    public var holds: [KafkaPartition: Int64?] = [:]

    public init() {}

    public var isEmpty: Bool { self.putOff.isEmpty && self.again.isEmpty && self.holds.isEmpty }
}
