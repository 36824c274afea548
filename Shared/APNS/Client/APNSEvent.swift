/// What happens to a client's connections, for logs and counters.
public enum APNSEvent: Hashable, Sendable {
    /// Why a connection takes no more requests and another is made in its place.
    public enum Replacement: String, Hashable, Sendable, CaseIterable {
        /// APNs said so, in a frame or in an answer (IdleTimeout, Shutdown).
        case goAway = "goaway"
        case answer
        /// ExpiredProviderToken or UnrelatedKeyIdInToken, twice in a row: such a connection never takes the new token.
        case providerToken = "provider-token"
        /// Several requests in a row had no answer.
        case timeouts
        /// Everything outstanding was silent.
        case silence
        /// 5xx, 403 or reset streams again and again, while another connection was well.
        case serverErrors = "server-errors"
        /// APNs refused the certificate, on this connection or on another of the client (Wallet Orders §4.5).
        case credential
        /// No stream identifier is left.
        case streamIdentifiers = "stream-identifiers"
    }

    case connected
    /// No connection came about, or one in use ended.
    case disconnected(APNSError)
    /// Both of a pair are told.
    ///
    /// - Parameters:
    ///   - reason: of the debug data, if Apple's form has one (Wallet Orders §4.5).
    ///   - code: of the frame, as `NO_ERROR`.
    case goAway(reason: String?, code: String)
    /// A connection's limit of open streams as it is used from now on.
    case streamLimit(Int)
    /// So many requests came back unprocessed in one burst and are sent again.
    case refusedStreams(Int)
    case pingRoundTrip(Duration)
    case replaced(Replacement)
}
