/// The deliveries on one connection whose answers its client may not have read. Checks for duplicates ask for them
/// after the connection has ended.
///
/// An answer counts as read a second after it was written to a connection that sends freely. An answer that was never
/// written, or written while the connection held bytes back, does not. Bounded by the open streams, the requests of a
/// second, and those that the client reset or whose answers were held back.
struct APNSSimulatorUnheard {
    /// The time after which a client on the same machine is assumed to have read everything written to it.
    static let readWithinMilliseconds: Int64 = 1000

    /// The streams whose requests have no answer yet, and their deliveries.
    private var open: [Int: UInt64] = [:]
    /// The written answers in order of time.
    private var written: [(delivery: UInt64, epochMilliseconds: Int64)] = []
    /// The index of the first element of `written` that still counts.
    private var first = 0
    private var held: [UInt64] = []

    /// Notes that a request was recorded; its answer is sent immediately, later or never.
    mutating func decided(_ delivery: UInt64, stream: Int) { self.open[stream] = delivery }

    /// Notes that the answer of a stream was written.
    ///
    /// - Parameter isHeld: true if the connection holds back or delays its output.
    mutating func answered(stream: Int, isHeld: Bool, nowEpochMilliseconds now: Int64) {
        guard let delivery = self.open.removeValue(forKey: stream) else { return }
        if isHeld { return self.held.append(delivery) }
        self.written.append((delivery, now))
        self.trim(now)
    }

    /// Returns the deliveries whose answers the client may not have read if the connection ends at this time.
    mutating func ended(nowEpochMilliseconds now: Int64) -> [UInt64] {
        self.trim(now)
        return (self.open.values + self.held + self.written[self.first...].map(\.delivery)).sorted()
    }

    private mutating func trim(_ now: Int64) {
        while self.first < self.written.count,
            self.written[self.first].epochMilliseconds < now - Self.readWithinMilliseconds
        { self.first += 1 }
        guard self.first > 1024, self.first * 2 > self.written.count else { return }
        self.written.removeFirst(self.first)
        self.first = 0
    }
}
