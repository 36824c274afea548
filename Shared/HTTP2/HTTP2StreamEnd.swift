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
