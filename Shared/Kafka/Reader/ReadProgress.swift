/// The progress of one read, and the decision that it has waited long enough. No C, no clock.
///
/// The position counts, not the records: compaction and control records leave gaps, also at the end of a partition.
struct ReadProgress {
    /// The partition that is read, for messages: `topic/partition`.
    let name: String
    let to: Int64
    let patience: Duration
    /// The lowest offset that may arrive next.
    private(set) var position: Int64
    /// True if the partition ended at the position when it was last read.
    private(set) var isAtEnd = false
    private var lastAt: ContinuousClock.Instant
    /// The last error from Kafka since the last progress.
    private var complaint: String?

    init(name: String, from: Int64, to: Int64, patience: Duration, now: ContinuousClock.Instant) {
        self.name = name
        self.position = from
        self.to = to
        self.patience = patience
        self.lastAt = now
    }

    var isDone: Bool { self.position >= self.to }

    /// Applies the bounds of the partition: deleted offsets are skipped.
    ///
    /// - Throws: `.outOfRange` if the partition ends before the read would begin: the topic was recreated.
    mutating func begin(_ bounds: OffsetRange) throws(KafkaError) {
        guard self.position <= bounds.end else {
            throw KafkaError(
                .outOfRange, "reading \(self.name) from \(self.position): the partition ends at \(bounds.end)")
        }
        self.position = max(self.position, bounds.first)
    }

    /// Notes a record; returns false if it lies after the end of the read.
    ///
    /// - Throws: `.outOfRange` for an offset that was passed already: the topic was recreated or truncated.
    mutating func takes(_ offset: Int64) throws(KafkaError) -> Bool {
        try self.checkForward(offset)
        self.isAtEnd = false
        // An offset is below Int64.max: the broker counts records.
        self.position = min(offset &+ 1, self.to)
        return offset < self.to
    }

    /// Notes that there is nothing between the position and this offset.
    mutating func reachedEnd(at offset: Int64) throws(KafkaError) {
        try self.checkForward(offset)
        self.position = offset
        self.isAtEnd = true
    }

    mutating func complained(_ error: KafkaError) { self.complaint = error.message }

    /// Restarts the patience: there was progress, or the caller was at work.
    mutating func moved(now: ContinuousClock.Instant) {
        self.lastAt = now
        self.complaint = nil
    }

    /// - Throws: `.timedOut` after `patience` without progress.
    func check(now: ContinuousClock.Instant) throws(KafkaError) {
        if now - self.lastAt >= self.patience { throw self.timedOut }
    }

    /// The failure of a read that waited in vain, with the last complaint.
    var timedOut: KafkaError {
        let reason = self.complaint.map { ": \($0)" } ?? ""
        return KafkaError(
            .timedOut, "reading \(self.name): nothing at \(self.position) of \(self.to) for \(self.patience)\(reason)",
            isRetriable: true)
    }

    private func checkForward(_ offset: Int64) throws(KafkaError) {
        if offset >= self.position { return }
        throw KafkaError(
            .outOfRange, "reading \(self.name): reached \(self.position), and now continues at \(offset)")
    }
}
