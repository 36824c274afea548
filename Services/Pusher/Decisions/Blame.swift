/// Whose fault a failed attempt is, and so whether it brings its notification closer to being given up.
enum Blame: Hashable, Sendable, CaseIterable {
    /// APNs, the way there or the credential: the notification waits as long as that lasts.
    case nobody
    /// The service or a connection failed this one, and most others pass or nobody else was there to compare with: only
    /// the time that it takes counts, not the number of attempts, and there is much of it.
    case time
    /// The notification's own: APNs said so of its device.
    case notification
}
