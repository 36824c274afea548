/// How much librdkafka's own broker can take before it drops the oldest records without a word.
///
/// A run that went over it would look for records that nobody has any more. Source: DESIGN §9; rdkafka_mock.c at
/// v2.0.2: 5 MiB a partition
struct ChaosBounds: Hashable, Sendable {
    /// Bytes of a partition.
    static let retention = 5 << 20
    /// Keys do not fall evenly, and record headers of the protocol count as well: so much of the mean is reckoned with.
    private static let unevenness = 1.6
    /// What stands beside the document in a record of `waybill.orders`: positions, ids of changes, digests.
    private static let recordBytes = 1500

    let partitions: Int
    /// Bytes of a change on its topic, and of the document that a version brings.
    let changeBytes: Int
    let documentBytes: Int

    /// How many changes fit, if each made a version of its own.
    var limit: Int {
        let largest = max(self.changeBytes, self.documentBytes + Self.recordBytes)
        return Int(Double(Self.retention) * Double(max(1, self.partitions)) / (Double(max(1, largest)) * Self.unevenness))
    }

    /// Why a run of so many changes cannot be; nil when it can.
    func refusal(changes: Int, seconds: Int) -> String? {
        guard changes > self.limit else { return nil }
        return "\(changes) changes do not fit into the broker that comes with librdkafka, which keeps 5 MiB of each of "
            + "\(self.partitions) partitions: use at most \(max(1, self.limit / max(1, seconds))) a second for "
            + "\(seconds) s, or a real broker (--kafka)"
    }
}
