/// The records that a worker defers, and those that it resumes.
public struct KafkaDeferral: Sendable {
    /// Records in hand that are deferred: they are not in hand any more, and not done.
    public var putOff: [KafkaReceipt] = []
    /// Records that were deferred and are in hand again.
    public var again: [KafkaReceipt] = []
    /// By partition, the lowest deferred offset from this call on; nil if none is deferred.
    public var holds: [KafkaPartition: Int64?] = [:]

    public init() {}

    public var isEmpty: Bool { self.putOff.isEmpty && self.again.isEmpty && self.holds.isEmpty }
}
