/// The head of an HTTP/1 request: where in its bytes things stand, and what follows.
struct RequestHead {
    /// How the end of the body is known.
    enum Framing: Hashable {
        case length(Int)
        case chunked
    }

    var method = Request.Method.other
    var target = 0..<0
    /// HTTP/1.0 if not.
    var isVersion11 = true
    var framing = Framing.length(0)
    /// Whether the client wants the connection to go on.
    var keepsAlive = true
    /// Whether the client waits for a word before it sends the body. Source: RFC 9110 §10.1.1
    var expectsContinue = false
    var authorization: Range<Int>?
    var ifModifiedSince: Range<Int>?
    var ifNoneMatch: [Range<Int>] = []
    var forwardedFor: [Range<Int>] = []
    /// Fields that only some roles read.
    var others: [(name: RequestField.Name, value: Range<Int>)] = []
}

/// What the head of a request may cost.
struct HeadLimits: Sendable {
    /// Bytes of the request line.
    var line = 8 << 10
    /// Bytes of request line and fields together.
    var head = 16 << 10
    /// Number of fields.
    var fields = 100
}
