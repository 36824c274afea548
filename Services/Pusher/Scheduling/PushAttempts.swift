import APNS

/// The attempts of one notification so far.
struct PushAttempts: Sendable {
    /// The same for all attempts of one notification, different for the next.
    let serial: UInt64
    /// True if it was never sent: only its first attempt counts against the hourly limit.
    var isFirst = true
    /// True if it is in flight as a suspect: see `CredentialQueue.suspects`.
    var isSuspect = false
    /// The time when it was last given to the client.
    var sent: ContinuousClock.Instant
    /// The same, milliseconds since 1970.
    var sentEpochMilliseconds: Int64 = .max
    var schedule = RetrySchedule()
    var history = PushHistory()

    /// - Parameter now: used until it is sent.
    init(serial: UInt64, now: ContinuousClock.Instant) {
        self.serial = serial
        self.sent = now
    }
}
