import NIOCore
import NIOHPACK
import NIOHTTP1

/// Turns the frames of an HTTP/2 stream into its request.
///
/// Violations of HTTP/2 itself (wrong pseudo-header fields, fields of a connection, lengths that do not add up) were
/// refused before; here are the rules that also apply to HTTP/1 requests. Source: RFC 9113 §8.2, §8.3
struct StreamRequestDecoder {
    /// The result of decoding the frames so far.
    enum Event {
        /// The client waits for 100 Continue before it sends the body. Source: RFC 9110 §10.1.1
        case expectsContinue
        case request(Request)
    }

    private let peer: Peer
    /// Most bytes of the body; with `reading`, once the fields have arrived.
    private var bodyLimit: Int
    private let limits: HeadLimits
    private let reading: ExtendedReading?
    private let presence: Presence?
    /// The request without its body, while that is being read or after it was refused.
    private(set) var request: Request?
    /// Bytes of its fields.
    private var headBytes = 0
    private var body = ByteBuffer()
    /// True if the request was returned before its body.
    private(set) var isBodyIgnored = false

    init(
        peer: Peer, bodyLimit: Int = RequestLimits.body, limits: HeadLimits = HeadLimits(),
        reading: ExtendedReading? = nil, presence: Presence? = nil
    ) {
        self.peer = peer
        self.presence = presence
        self.bodyLimit = bodyLimit
        self.limits = limits
        self.reading = reading
    }

    /// The client for whom a request that arrived in part counts, and the memory of that part; nil if there is none.
    var unfinished: (client: ClientAddress?, bytes: Int)? {
        self.request.map { (self.peer.counted($0), self.headBytes + self.body.storageCapacity) }
    }

    /// Releases what has arrived; nothing is decoded after it.
    mutating func discard() { (self.request, self.body) = (nil, ByteBuffer()) }

    /// - Parameter isLast: true if no body follows.
    mutating func receive(_ headers: HPACKHeaders, isLast: Bool) throws(RequestFault) -> Event? {
        if let request = self.request {
            // Trailers; no endpoint needs them, and they end the stream.
            return isLast ? self.finished(request) : nil
        }
        var head = Head()
        for (name, value, _) in headers {
            try head.add(name, value)
            if self.reading != nil, let name = RequestField.Name(rawValue: name == ":authority" ? "host" : name) {
                head.fields.others.append(RequestField(name: name, value: value))
            }
        }
        guard headers.count <= self.limits.fields else {
            throw RequestFault(
                status: .requestHeaderFieldsTooLarge, message: "a request may have \(self.limits.fields) fields at most"
            )
        }
        guard let target = head.target, !target.isEmpty, target.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw .malformed("the request target is missing or has characters that must be percent-encoded")
        }
        guard target.utf8.count <= self.limits.line else { throw RequestHead.lineTooLong(self.limits) }
        let request = Request(
            method: head.method, target: target, fields: head.fields, body: ByteBuffer(),
            client: self.peer.client(forwardedFor: head.forwardedFor), presence: self.presence)
        if isLast { return .request(request) }
        if let reading = self.reading {
            guard let limit = reading.bodyLimit(request) else {
                self.isBodyIgnored = true
                return .request(request.withoutBody)
            }
            self.bodyLimit = limit
        }
        self.request = request
        for (name, value, _) in headers { self.headBytes += name.utf8.count + value.utf8.count }
        guard head.length <= self.bodyLimit else { throw .tooLarge(self.bodyLimit) }
        return head.expectsContinue ? .expectsContinue : nil
    }

    /// - Parameter isLast: true if the body is complete after it.
    mutating func receive(_ data: ByteBuffer, isLast: Bool) throws(RequestFault) -> Event? {
        // A stream that begins with data was refused before.
        guard self.request != nil else { throw .malformed("there is a body without a request") }
        guard data.readableBytes <= self.bodyLimit - self.body.readableBytes else { throw .tooLarge(self.bodyLimit) }
        self.body.writeImmutableBuffer(data)
        guard isLast, let request = self.request else { return nil }
        return self.finished(request)
    }

    /// Nothing follows, so nothing is kept.
    private mutating func finished(_ request: Request) -> Event {
        let body = self.body
        (self.request, self.body) = (nil, ByteBuffer())
        return .request(request.with(body))
    }

    /// The fields that matter for the answer.
    private struct Head {
        var method = Request.Method.other
        var target: String?
        var fields = Request.Fields()
        var forwardedFor: [String] = []
        var expectsContinue = false
        /// Bytes of the body, as announced.
        var length = 0

        /// Names are in lower case. Source: RFC 9113 §8.2.1
        mutating func add(_ name: String, _ value: String) throws(RequestFault) {
            switch name {
            case ":method": self.method = Request.Method(value)
            case ":path": self.target = value
            case "authorization":
                guard self.fields.authorization == nil else {
                    throw .malformed("there is more than one Authorization")
                }
                self.fields.authorization = value
            case "if-none-match": self.fields.ifNoneMatch.append(value)
            case "if-modified-since": self.fields.ifModifiedSince = value
            case "x-forwarded-for": self.forwardedFor.append(value)
            case "content-length":
                // The connection checks frame by frame that the body has this length.
                guard let length = value.utf8Span.span.decimal else {
                    throw .malformed("Content-Length must be one number")
                }
                self.length = length
            case "expect":
                guard value.lowercased() == "100-continue" else {
                    throw RequestFault(
                        status: .expectationFailed, message: "only Expect: 100-continue is supported")
                }
                self.expectsContinue = true
            default: break
            }
        }
    }
}
