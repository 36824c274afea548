/// An event in the life of a client's connections, for logs and counters.
public enum APNSEvent: Hashable, Sendable {
    /// The reason why a connection takes no more requests and another is made in its place.
    public enum Replacement: String, Hashable, Sendable, CaseIterable {
        /// APNs said so, in a frame or in an answer (IdleTimeout, Shutdown).
        case goAway = "goaway"
        case answer
        /// ExpiredProviderToken or UnrelatedKeyIdInToken, twice in a row: such a connection never takes the new token.
        case providerToken = "provider-token"
        /// Several requests in a row had no answer.
        case timeouts
        /// Nothing outstanding was answered.
        case silence
        /// 5xx, 403 or reset streams again and again, while another connection was healthy.
        case serverErrors = "server-errors"
        /// APNs refused the certificate, on this connection or on another of the client (Wallet Orders §4.5).
        case credential
        /// No stream identifier is left.
        case streamIdentifiers = "stream-identifiers"
    }

    case connected
    /// A connection could not be made, or one in use ended.
    case disconnected(APNSError)
    /// GOAWAY came; each of a pair is reported.
    ///
    /// - Parameters:
    ///   - reason: taken from the debug data, if it has Apple's form (Wallet Orders §4.5).
    ///   - code: the frame's error code, as `NO_ERROR`.
    case goAway(reason: String?, code: String)
    /// A connection's limit of open streams from this moment on.
    case streamLimit(Int)
    /// The number of requests that came back unprocessed in one burst and are sent again.
    case refusedStreams(Int)
    case pingRoundTrip(Duration)
    case replaced(Replacement)
}
