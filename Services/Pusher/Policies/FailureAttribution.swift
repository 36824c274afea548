/// The cause of a failed attempt, which decides if the attempt brings its notification closer to being given up.
enum FailureAttribution: Hashable, Sendable, CaseIterable {
    /// APNs, the network path or the credential: the notification waits as long as that lasts.
    case nobody
    /// The service or a connection failed this one, and most others succeed or there were no others to compare with:
    /// only the time that it takes counts, not the number of attempts, and there is much of it.
    case time
    /// The notification itself: APNs said so of its device.
    case notification
}
