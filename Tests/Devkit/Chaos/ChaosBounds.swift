/// The capacity of librdkafka's own broker, which silently drops the oldest records beyond it.
///
/// A run that exceeded it would look for records that no longer exist. Source: Design §9; rdkafka_mock.c at v2.0.2: 5
/// MiB per partition
struct ChaosBounds: Hashable, Sendable {
    /// Bytes per partition.
    static let retention = 5 << 20
    /// The assumed size of the largest partition relative to the mean: keys are not distributed evenly, and the
    /// protocol's record headers count as well.
    private static let unevenness = 1.6
    /// Bytes other than the document in a record of `waybill.orders`: positions, ids of changes, digests.
    private static let recordBytes = 1500

    let partitions: Int
    /// Bytes of a change on its topic, and of the document of its version.
    let changeBytes: Int
    let documentBytes: Int

    /// The number of changes that fit if each one results in a version.
    var limit: Int {
        let largest = max(self.changeBytes, self.documentBytes + Self.recordBytes)
        return Int(
            Double(Self.retention) * Double(max(1, self.partitions)) / (Double(max(1, largest)) * Self.unevenness))
    }

    /// Returns the reason why a run with this number of changes is impossible; nil if it is possible.
    func refusal(changes: Int, seconds: Int) -> String? {
        guard changes > self.limit else { return nil }
        return "\(changes) changes do not fit into the broker that comes with librdkafka, which keeps 5 MiB of each of "
            + "\(self.partitions) partitions: use at most \(max(1, self.limit / max(1, seconds))) a second for "
            + "\(seconds) s, or a real broker (--kafka)"
    }
}
