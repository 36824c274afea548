/// What happens to a client's connections, for logs and counters.
public enum APNSEvent: Hashable, Sendable {
    case connected
    /// No connection came about, or one in use ended.
    case disconnected(APNSError)
    /// Source: Wallet Orders §4.5
    case goAway(reason: String?)
    /// The peer's limit of open streams as it is used from now on.
    case streamLimit(Int)
}
