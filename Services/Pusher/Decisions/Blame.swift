/// Whose fault a failed attempt is, and so whether it brings its notification closer to being given up.
enum Blame: Hashable, Sendable, CaseIterable {
    /// APNs, the way there or the credential: the notification waits as long as that lasts.
    case nobody
    /// Nobody else was there to compare with: only the time that it takes counts, not the number of attempts.
    case time
    /// The notification's own, as far as anybody can tell: APNs went on judging others.
    case notification
}
