/// The progress of reading each partition of the pending topic up to the end that it had on assignment: before that,
/// the tombstone of a record may not be read yet.
///
/// Bounded: one entry for each partition.
struct PendingFolds {
    /// The time without a record after which a partition counts as read to its end: the last offsets may hold no
    /// records.
    static let quiet = Duration.seconds(10)

    private struct Fold {
        let end: Int64
        var movedAt: ContinuousClock.Instant
    }

    private var known: Set<Int32> = []
    private var underWay: [Int32: Fold] = [:]

    /// True if `begin` was called for a partition.
    func isKnown(_ partition: Int32) -> Bool { self.known.contains(partition) }

    /// True if records read from a partition may be taken out.
    func isOpen(_ partition: Int32) -> Bool { self.known.contains(partition) && self.underWay[partition] == nil }

    /// - Parameter end: the offset after the last record.
    mutating func begin(_ partition: Int32, to end: Int64, now: ContinuousClock.Instant) {
        self.known.insert(partition)
        self.underWay[partition] = Fold(end: end, movedAt: now)
    }

    /// - Parameter next: the offset that is read next.
    /// - Returns: true if this opened the partition.
    mutating func advance(_ partition: Int32, to next: Int64, now: ContinuousClock.Instant) -> Bool {
        guard let fold = self.underWay[partition] else { return false }
        guard next < fold.end else {
            self.underWay[partition] = nil
            return true
        }
        self.underWay[partition]?.movedAt = now
        return false
    }

    /// - Returns: the partitions that were opened.
    mutating func endQuiet(now: ContinuousClock.Instant) -> [Int32] {
        let quiet = self.underWay.filter { now - $0.value.movedAt >= Self.quiet }.map(\.key)
        for partition in quiet { self.underWay[partition] = nil }
        return quiet
    }

    mutating func forget(_ partition: Int32) {
        self.known.remove(partition)
        self.underWay[partition] = nil
    }
}
