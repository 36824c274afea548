/// All that is known about a stream when it has ended.
public struct HTTP2StreamEnd: Sendable {
    public let stream: Int32
    /// The caller's own number, given at `submit`.
    public let tag: Int
    public let errorCode: HTTP2ErrorCode
    /// The `:status` of the final response, or of an interim one if no final response arrived; nil if neither did.
    public let status: Int?
    /// The headers of the response that the session was configured to keep.
    public let headers: [HTTP2Header]
    /// The response's body, cut at `HTTP2ClientSession.keptBytes`.
    public let body: [UInt8]
    /// True if the peer ended the stream itself, so that header and body are complete whatever the error code is.
    public let isComplete: Bool
}
