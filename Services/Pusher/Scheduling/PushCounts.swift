/// The events of one credential since the counts were last taken, for the metrics and the log.
struct PushCounts: Sendable {
    /// Notifications that APNs accepted.
    var delivered = 0
    /// Attempts that are repeated.
    var retried = 0
    /// Changes that were merged into another notification.
    var coalesced = 0
    /// Notifications that waited because of the hourly limit.
    var limited = 0
    /// Notifications whose token APNs does not know, and whose registration is kept.
    var unknown = 0
    /// Notifications that were dropped, by reason.
    var dropped: [String: Int] = [:]
    /// Time from the publication of a change to APNs' answer: for each delivered notification its oldest change.
    var agesInMilliseconds: [Int64] = []

    /// The most distinct reasons: some contain text from APNs.
    private static let reasonLimit = 32

    mutating func drop(_ reason: String, count: Int = 1) {
        let isKnown = self.dropped[reason] != nil || self.dropped.count < Self.reasonLimit
        self.dropped[isKnown ? reason : "others", default: 0] += count
    }
}
