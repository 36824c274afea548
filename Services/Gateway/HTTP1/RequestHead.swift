/// The head of an HTTP/1 request: the positions of its parts, and the resulting properties.
struct RequestHead {
    /// The way in which the end of the body is determined.
    enum Framing: Hashable {
        case length(Int)
        case chunked
    }

    var method = Request.Method.other
    var target = 0..<0
    /// False for HTTP/1.0.
    var isVersion11 = true
    var framing = Framing.length(0)
    /// True if the client wants to keep the connection open.
    var keepsAlive = true
    /// True if the client waits for 100 Continue before it sends the body. Source: RFC 9110 §10.1.1
    var expectsContinue = false
    var authorization: Range<Int>?
    var ifModifiedSince: Range<Int>?
    var ifNoneMatch: [Range<Int>] = []
    var forwardedFor: [Range<Int>] = []
    /// Fields that only some roles read.
    var others: [(name: RequestField.Name, value: Range<Int>)] = []
}

/// Limits for the head of a request.
struct HeadLimits: Sendable {
    /// Bytes of the request line.
    var line = 8 << 10
    /// Bytes of request line and fields together.
    var head = 16 << 10
    /// Number of fields.
    var fields = 100
}
