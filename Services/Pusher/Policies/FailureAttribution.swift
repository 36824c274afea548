/// The cause of a failed attempt, which decides if the attempt counts against its notification.
enum FailureAttribution: Hashable, Sendable, CaseIterable {
    /// APNs, the network path or the credential: the notification waits until that works again.
    case nobody
    /// The service or a connection, while most other notifications succeed or there are none to compare with: only the
    /// time counts, against a long limit, not the number of attempts.
    case time
    /// The notification itself: APNs' answer concerns its device.
    case notification
}
