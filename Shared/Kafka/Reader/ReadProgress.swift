/// How far one read has come, and when it has waited long enough. No C, no clock.
///
/// The position counts, not the records: compaction and control records leave gaps, also at the end of a partition.
struct ReadProgress {
    /// What is read, for messages: `topic/partition`.
    let name: String
    let to: Int64
    let patience: Duration
    /// The next offset that may come.
    private(set) var position: Int64
    private var lastAt: ContinuousClock.Instant
    /// The last thing that Kafka complained about since something came.
    private var complaint: String?

    init(name: String, from: Int64, to: Int64, patience: Duration, now: ContinuousClock.Instant) {
        self.name = name
        self.position = from
        self.to = to
        self.patience = patience
        self.lastAt = now
    }

    var isDone: Bool { self.position >= self.to }

    /// Takes the bounds of the partition in: what was deleted is left out.
    ///
    /// - Throws: `.outOfRange` when the partition ends before the read would begin: the topic was made anew.
    mutating func begin(_ bounds: KafkaBounds) throws(KafkaError) {
        guard self.position <= bounds.end else {
            throw KafkaError(
                .outOfRange, "reading \(self.name) from \(self.position): the partition ends at \(bounds.end)")
        }
        self.position = max(self.position, bounds.first)
    }

    /// Notes a record; false when it lies behind the end of the read.
    ///
    /// - Throws: `.outOfRange` for an offset that was passed already: the topic was made anew or cut.
    mutating func takes(_ offset: Int64) throws(KafkaError) -> Bool {
        try self.checkForward(offset)
        // An offset is below Int64.max: the broker counts records.
        self.position = min(offset &+ 1, self.to)
        return offset < self.to
    }

    /// Notes that nothing lies between the position and this offset.
    mutating func reachedEnd(at offset: Int64) throws(KafkaError) {
        try self.checkForward(offset)
        self.position = offset
    }

    mutating func complained(_ error: KafkaError) { self.complaint = error.message }

    /// Starts the patience anew: something came, or the caller was at work.
    mutating func moved(now: ContinuousClock.Instant) {
        self.lastAt = now
        self.complaint = nil
    }

    /// - Throws: `.timedOut` when nothing came for as long as `patience` says.
    func check(now: ContinuousClock.Instant) throws(KafkaError) {
        if now - self.lastAt < self.patience { return }
        let reason = self.complaint.map { ": \($0)" } ?? ""
        throw KafkaError(
            .timedOut, "reading \(self.name): nothing at \(self.position) of \(self.to) for \(self.patience)\(reason)",
            isRetriable: true)
    }

    private func checkForward(_ offset: Int64) throws(KafkaError) {
        if offset >= self.position { return }
        throw KafkaError(
            .outOfRange, "reading \(self.name): came to \(self.position), and now it goes on at \(offset)")
    }
}
