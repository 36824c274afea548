import NIOHTTP1

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

// Parses a head strictly: anything that two readers could interpret differently is refused, because a proxy in front of
// us may be the other reader (request smuggling). Source: RFC 9112 §2.2, §3, §5, §6.3, §11.2

extension RequestHead {
    /// - Parameters:
    ///   - bytes: the whole head, from the method to the empty line inclusive.
    ///   - isExtended: true to keep the fields that only some roles read.
    init(parsing bytes: Span<UInt8>, limits: HeadLimits, isExtended: Bool = false) throws(RequestFault) {
        self.init()
        var cursor = try self.readRequestLine(bytes, limits)
        var fields = FieldsSeen()
        while cursor < bytes.count - 2 {
            fields.count += 1
            guard fields.count <= limits.fields else {
                throw RequestFault(
                    status: .requestHeaderFieldsTooLarge, message: "a request may have \(limits.fields) fields at most")
            }
            let start = cursor
            cursor = try self.readField(bytes, from: cursor, &fields)
            if isExtended { self.noteOther(bytes, start..<cursor) }
        }
        try self.decideFraming(fields)
    }

    /// The facts about fields that are judged once all are known.
    private struct FieldsSeen {
        var count = 0
        var hosts = 0
        var length: Int?
        var isChunked = false
        var closes = false
        var keepsAlive = false
    }

    /// - Returns: the start of the first field.
    private mutating func readRequestLine(_ bytes: Span<UInt8>, _ limits: HeadLimits) throws(RequestFault) -> Int {
        var cursor = 0
        while bytes[cursor].isTokenCharacter { cursor += 1 }
        guard cursor > 0, bytes[cursor] == .space else {
            throw .malformed("the request line does not begin with a method and a space")
        }
        self.method = Self.method(bytes.extracting(0..<cursor))
        let isConnect = bytes.extracting(0..<cursor).isEqual("CONNECT")
        cursor += 1
        let start = cursor
        while (0x21...0x7E).contains(bytes[cursor]) { cursor += 1 }
        guard cursor - start <= limits.line else { throw Self.lineTooLong(limits) }
        guard cursor > start, bytes[cursor] == .space else {
            throw .malformed("the request target is empty or has characters that must be percent-encoded")
        }
        guard isConnect || Self.isTarget(bytes.extracting(start..<cursor)) else {
            throw .malformed("the request target must be a path, a URL or *")
        }
        self.target = start..<cursor
        cursor += 1
        // HTTP/d.d and the line end
        guard bytes.count >= cursor + 10, bytes.extracting(cursor..<cursor + 5).isEqual("HTTP/"),
            bytes[cursor + 5].isDigit, bytes[cursor + 6] == UInt8(ascii: "."), bytes[cursor + 7].isDigit,
            bytes[cursor + 8] == .carriageReturn, bytes[cursor + 9] == .lineFeed
        else { throw .malformed("the request line does not end with a version of HTTP") }
        guard bytes[cursor + 5] == UInt8(ascii: "1") else {
            throw RequestFault(
                status: .httpVersionNotSupported, message: "HTTP/1.1 and HTTP/1.0 are spoken on this connection")
        }
        self.isVersion11 = bytes[cursor + 7] != UInt8(ascii: "0")
        return cursor + 10
    }

    /// True if a target begins with a slash, or with scheme and host, or is the asterisk. Source: RFC 9112 §3.2
    private static func isTarget(_ bytes: Span<UInt8>) -> Bool {
        if bytes[0] == UInt8(ascii: "/") { return true }
        if bytes[0] == UInt8(ascii: "*") { return bytes.count == 1 }
        var cursor = 0
        while cursor < bytes.count, bytes[cursor].isLetter { cursor += 1 }
        guard cursor > 0, bytes.count > cursor + 3, bytes.extracting(cursor..<cursor + 3).isEqual("://") else {
            return false
        }
        let host = cursor + 3
        cursor = host
        while cursor < bytes.count, bytes[cursor].isHostCharacter { cursor += 1 }
        return cursor > host && (cursor == bytes.count || bytes[cursor] == UInt8(ascii: "/"))
    }

    static func lineTooLong(_ limits: HeadLimits) -> RequestFault {
        RequestFault(status: .uriTooLong, message: "the request line may have \(limits.line) bytes at most")
    }

    private static func method(_ name: Span<UInt8>) -> Request.Method {
        if name.isEqual("GET") { return .get }
        if name.isEqual("POST") { return .post }
        if name.isEqual("HEAD") { return .head }
        if name.isEqual("DELETE") { return .delete }
        if name.isEqual("PUT") { return .put }
        if name.isEqual("PATCH") { return .patch }
        if name.isEqual("OPTIONS") { return .options }
        return .other
    }

    /// - Returns: the start of the next field, or of the empty line.
    private mutating func readField(
        _ bytes: Span<UInt8>, from start: Int, _ seen: inout FieldsSeen
    ) throws(RequestFault) -> Int {
        var cursor = start
        while bytes[cursor].isTokenCharacter { cursor += 1 }
        guard cursor > start, bytes[cursor] == UInt8(ascii: ":") else {
            throw .malformed("a header field does not begin with a name and a colon")
        }
        let name = bytes.extracting(start..<cursor)
        cursor += 1
        while bytes[cursor].isBlank { cursor += 1 }
        let valueStart = cursor
        while bytes[cursor].isFieldCharacter { cursor += 1 }
        // The head ends with an empty line, so there is a byte after each carriage return.
        guard bytes[cursor] == .carriageReturn, bytes[cursor + 1] == .lineFeed else {
            throw .malformed("a header field has control characters in its value")
        }
        var valueEnd = cursor
        while valueEnd > valueStart, bytes[valueEnd - 1].isBlank { valueEnd -= 1 }
        try self.note(name, bytes, valueStart..<valueEnd, &seen)
        return cursor + 2
    }

    /// Keeps the fields that are used. Checks the length of a name first, since most fields are not used.
    private mutating func note(
        _ name: Span<UInt8>, _ bytes: Span<UInt8>, _ range: Range<Int>, _ seen: inout FieldsSeen
    ) throws(RequestFault) {
        let value = bytes.extracting(range)
        switch name.count {
        case 4 where name.isEqualIgnoringCase("host"): seen.hosts += 1
        case 6 where name.isEqualIgnoringCase("expect"):
            guard value.isEqualIgnoringCase("100-continue") else {
                throw RequestFault(status: .expectationFailed, message: "only Expect: 100-continue is supported")
            }
            self.expectsContinue = true
        case 10 where name.isEqualIgnoringCase("connection"):
            if value.hasElement("close") { seen.closes = true }
            if value.hasElement("keep-alive") { seen.keepsAlive = true }
        case 13 where name.isEqualIgnoringCase("authorization"):
            guard self.authorization == nil else { throw .malformed("there is more than one Authorization") }
            self.authorization = range
        case 13 where name.isEqualIgnoringCase("if-none-match"): self.ifNoneMatch.append(range)
        case 14 where name.isEqualIgnoringCase("content-length"):
            guard seen.length == nil, let length = value.decimal else {
                throw .malformed("Content-Length must be one number")
            }
            seen.length = length
        case 15 where name.isEqualIgnoringCase("x-forwarded-for"): self.forwardedFor.append(range)
        case 17 where name.isEqualIgnoringCase("if-modified-since"): self.ifModifiedSince = range
        case 17 where name.isEqualIgnoringCase("transfer-encoding"):
            guard !seen.isChunked, value.isEqualIgnoringCase("chunked") else {
                throw RequestFault(
                    status: .notImplemented, message: "only the transfer coding chunked is supported, once")
            }
            seen.isChunked = true
        default: break
        }
    }

    /// Keeps a field that only some roles read.
    ///
    /// - Parameter line: a field that was found to be well-formed, with its end.
    private mutating func noteOther(_ bytes: Span<UInt8>, _ line: Range<Int>) {
        var colon = line.lowerBound
        while bytes[colon] != UInt8(ascii: ":") { colon += 1 }
        guard let name = RequestField.Name(bytes.extracting(line.lowerBound..<colon)) else { return }
        var (start, end) = (colon + 1, line.upperBound - 2)
        while start < end, bytes[start].isBlank { start += 1 }
        while end > start, bytes[end - 1].isBlank { end -= 1 }
        self.others.append((name, start..<end))
    }

    /// Decides framing and persistence from the fields that concern them.
    private mutating func decideFraming(_ seen: FieldsSeen) throws(RequestFault) {
        // Source: RFC 9112 §3.2
        guard seen.hosts == 1 || (seen.hosts == 0 && !self.isVersion11) else {
            throw .malformed("HTTP/1.1 requires exactly one Host")
        }
        if seen.isChunked {
            // Source: RFC 9112 §6.1, §6.3: both together are how requests are smuggled
            guard seen.length == nil, self.isVersion11 else {
                throw .malformed("Transfer-Encoding together with Content-Length, or in HTTP/1.0")
            }
            self.framing = .chunked
        } else {
            self.framing = .length(seen.length ?? 0)
        }
        self.keepsAlive = !seen.closes && (self.isVersion11 || seen.keepsAlive)
        if !self.isVersion11 { self.expectsContinue = false }
    }
}
