/// A result of receiving bytes or writing frames, for the owner of a session.
public enum HTTP2Event: Sendable {
    /// A stream has ended; occurs exactly once for each submitted request while the session lives.
    case streamEnded(HTTP2StreamEnd)
    /// The peer announced its settings.
    ///
    /// The number is the effective limit of open streams; `UInt32.max` if the peer set none.
    /// Source: RFC 9113 §6.5.2, SETTINGS_MAX_CONCURRENT_STREAMS
    case settings(maxConcurrentStreams: UInt32)
    /// The peer accepts no new streams.
    ///
    /// Streams above `lastStream` were not processed; a `.streamEnded` with REFUSED_STREAM follows for each. The debug
    /// data is cut at `HTTP2ClientSession.keptBytes`.
    /// Source: RFC 9113 §6.8
    case goAway(lastStream: Int32, code: HTTP2ErrorCode, debugData: [UInt8])
    /// The peer answered our PING with this number.
    case pingAcknowledged(UInt64)
}
