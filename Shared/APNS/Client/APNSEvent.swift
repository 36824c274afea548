/// An event in the life of a client's connections, for logs and counters.
public enum APNSEvent: Hashable, Sendable {
    /// The reason why a connection accepts no more requests and another replaces it.
    public enum Replacement: String, Hashable, Sendable, CaseIterable {
        /// APNs demands it, by GOAWAY or (`answer`) by IdleTimeout or Shutdown.
        case goAway = "goaway"
        case answer
        /// ExpiredProviderToken or UnrelatedKeyIdInToken twice in a row: such a connection never accepts the new token.
        case providerToken = "provider-token"
        /// Several requests in a row got no answer in time.
        case timeouts
        /// APNs did not answer a PING, and sent nothing else.
        case silence
        /// Repeated failures (5xx, 403, 429 for the provider, reset streams, time-outs) while another connection was
        /// healthy.
        case serverErrors = "server-errors"
        /// Two answers in a row were not of APNs: its address is that of another server.
        case foreign = "not-apns"
        /// APNs refused the certificate, on this connection or another of the client (Wallet Orders §4.5).
        case credential
        /// No stream identifier is left, or the session accepts no request for another reason.
        case streamIdentifiers = "stream-identifiers"
    }

    case connected
    /// A connection could not be established, or ended with an error.
    case disconnected(APNSError)
    /// Notifications have waited for `APNSConfiguration.reachTimeout` without any connection. Reported once until there
    /// is one.
    case unreachable(APNSError)
    /// APNs sent GOAWAY; each frame of a pair is reported.
    ///
    /// - Parameters:
    ///   - reason: taken from the debug data, if these have Apple's form (Wallet Orders §4.5).
    ///   - code: the frame's error code, such as `NO_ERROR`.
    case goAway(reason: String?, code: String)
    /// The limit of open streams of a connection from this moment on.
    case streamLimit(Int)
    /// The number of requests that APNs refused unprocessed in one burst and that are sent again.
    case refusedStreams(Int)
    case pingRoundTrip(Duration)
    case replaced(Replacement)
}
