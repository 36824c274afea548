/// What the bytes that came, or the frames that left, meant for the owner of a session.
public enum HTTP2Event: Sendable {
    /// A stream is over; comes exactly once for each submitted request while the session lives.
    case streamEnded(HTTP2StreamEnd)
    /// The peer announced its settings.
    ///
    /// The number is its effective limit of open streams; `UInt32.max` when it named none.
    /// Source: RFC 9113 §6.5.2, SETTINGS_MAX_CONCURRENT_STREAMS
    case settings(maxConcurrentStreams: UInt32)
    /// The peer takes no new streams.
    ///
    /// Streams above `lastStream` were not processed; their `.streamEnded` with REFUSED_STREAM follow. The debug data
    /// is cut at
    /// `HTTP2ClientSession.keptBytes`.
    /// Source: RFC 9113 §6.8
    case goAway(lastStream: Int32, code: HTTP2ErrorCode, debugData: [UInt8])
    /// The peer answered our PING that carried this number.
    case pingAcknowledged(UInt64)
}

/// Everything that is known of a stream when it is over.
public struct HTTP2StreamEnd: Sendable {
    public let stream: Int32
    /// The caller's own number, given at `submit`.
    public let tag: Int
    public let errorCode: HTTP2ErrorCode
    /// The final `:status`; nil when no response header came.
    public let status: Int?
    /// Those of the response's headers that the session was told to keep.
    public let headers: [HTTP2Header]
    /// The response's body, cut at `HTTP2ClientSession.keptBytes`.
    public let body: [UInt8]
    /// The peer ended the stream itself, so header and body are whole, whatever the error code says.
    public let isComplete: Bool
}

/// One header field of a response, name in lower case.
public struct HTTP2Header: Hashable, Sendable {
    public let name: String
    /// As it came, with bytes that are not UTF-8 replaced.
    public let value: String
}
