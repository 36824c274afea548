import APNS

/// What became of one notification so far.
struct PushTries: Sendable {
    /// The same for all attempts of one notification, another one for the next.
    let serial: UInt64
    /// Whether it was never sent: only then it costs one of the hour's.
    var isFirst = true
    /// True if it is in flight as one of few whose tokens APNs may not know.
    var isSuspect = false
    /// When it was given to the client last.
    var sent: ContinuousClock.Instant
    /// The same, milliseconds since 1970.
    var sentEpochMilliseconds: Int64 = .max
    var schedule = RetrySchedule()
    var history = PushHistory()

    /// - Parameter now: stands in until it is sent.
    init(serial: UInt64, now: ContinuousClock.Instant) {
        self.serial = serial
        self.sent = now
    }
}
