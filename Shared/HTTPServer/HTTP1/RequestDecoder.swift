import NIOCore
import NIOHTTP1

/// Turns the bytes of a connection into requests, one after the other. The bytes may be split anywhere.
///
/// Bounded by `HeadLimits` and `bodyLimit`, and by the caller, which feeds no more while a request is being answered.
struct RequestDecoder {
    /// The result of decoding the bytes so far.
    enum Event {
        /// The client waits for "100 Continue". Reported once, before the request.
        case expectsContinue
        case request(Request, RequestHead)
    }

    private enum State {
        /// With the number of bytes that are known not to contain the end of the head.
        case head(scanned: Int)
        case body(RequestHead, Request, ByteBuffer, ChunkedDecoder, limit: Int)
    }

    private let limits: HeadLimits
    private let bodyLimit: Int
    private let reading: ExtendedReading?
    private let peer: Peer
    private let presence: Presence?
    private var buffer = ByteBuffer()
    private var state = State.head(scanned: 0)
    /// The request whose body is being read, or was refused, without its body.
    private(set) var headed: Request?
    /// Bytes of that request's head.
    private var headBytes = 0

    init(
        peer: Peer, bodyLimit: Int, limits: HeadLimits = HeadLimits(), reading: ExtendedReading? = nil,
        presence: Presence? = nil
    ) {
        self.peer = peer
        self.presence = presence
        self.bodyLimit = bodyLimit
        self.limits = limits
        self.reading = reading
    }

    /// Received bytes that belong to no request returned so far.
    var bufferedBytes: Int { self.buffer.readableBytes }

    /// Bytes of memory that the buffer occupies, whatever its content.
    var storageBytes: Int { self.buffer.storageCapacity }

    /// True if a part of a request has arrived.
    var isInsideRequest: Bool {
        if case .body = self.state { return true }
        return self.buffer.readableBytes > 0
    }

    /// The client for whom a request that arrived in part counts, and the memory of that part. Nil if there is none,
    /// or while a proxy has not named its client.
    var unfinished: (client: ClientAddress?, bytes: Int)? {
        switch self.state {
        case .head:
            guard self.buffer.readableBytes > 0, !self.peer.isTrusted else { return nil }
            return (self.peer.client, self.buffer.storageCapacity)
        case .body(_, let request, let body, _, _):
            return (self.peer.counted(request), self.headBytes + self.buffer.storageCapacity + body.storageCapacity)
        }
    }

    /// Releases what has arrived; nothing is decoded after it.
    mutating func discard() {
        self.buffer = ByteBuffer()
        self.state = .head(scanned: 0)
        self.headed = nil
    }

    mutating func feed(_ bytes: ByteBuffer) {
        if self.buffer.readableBytes == 0 {
            self.buffer = bytes
        } else {
            // A buffer that grows keeps the bytes already read, so these are discarded first.
            if bytes.readableBytes > self.buffer.writableBytes { self.buffer.discardReadBytes() }
            self.buffer.writeImmutableBuffer(bytes)
        }
    }

    /// - Returns: nil if more bytes are needed.
    /// - Throws: a fault after which nothing on the connection can be parsed any more.
    mutating func next() throws(RequestFault) -> Event? {
        let event: Event?
        switch self.state {
        case .head(let scanned): event = try self.head(scanned: scanned)
        case .body(let head, let request, let body, let chunks, let limit):
            // The state releases its copy: two owners of a body would copy it with each part.
            self.state = .head(scanned: 0)
            event = try self.body(head, request, body, chunks, limit)
        }
        self.trim()
        return event
    }

    /// Releases memory that is much larger than its remaining content: a connection may stay idle for a long time.
    ///
    /// A copy is made only if three quarters of the storage are unused, so each byte is copied about once.
    private mutating func trim() {
        let count = self.buffer.readableBytes
        if count == 0 {
            self.buffer = ByteBuffer()
        } else if self.buffer.storageCapacity > max(Self.keptStorage, 4 * count) {
            self.buffer = ByteBuffer(bytes: self.buffer.readableBytesView)
        }
    }

    /// Bytes of storage of a partial request that are not worth a copy.
    private static let keptStorage = 4 << 10

    private mutating func head(scanned: Int) throws(RequestFault) -> Event? {
        var scanned = scanned
        if scanned == 0, try self.skipEmptyLines() { return nil }
        guard let length = try Self.headLength(self.buffer.readableBytesUInt8Span, &scanned, self.limits) else {
            self.state = .head(scanned: scanned)
            return nil
        }
        var head = try RequestHead(
            parsing: self.buffer.readableBytesUInt8Span.extracting(0..<length), limits: self.limits,
            isExtended: self.reading != nil)
        let request = Request(
            method: head.method, target: self.text(head.target) ?? "", fields: self.fields(head), body: ByteBuffer(),
            client: self.client(head), presence: self.presence)
        self.buffer.moveReaderIndex(forwardBy: length)
        if head.framing == .length(0) { return self.finished(request, head) }
        let limit = self.reading.map { $0.bodyLimit(request) } ?? self.bodyLimit
        guard let limit else {
            head.keepsAlive = false
            return self.finished(request.withoutBody, head)
        }
        (self.headed, self.headBytes) = (request, length)
        if case .length(let length) = head.framing, length > limit { throw .tooLarge(limit) }
        self.state = .body(head, request, ByteBuffer(), ChunkedDecoder(), limit: limit)
        return head.expectsContinue && self.buffer.readableBytes == 0 ? .expectsContinue : try self.next()
    }

    private mutating func body(
        _ head: RequestHead, _ request: Request, _ body: consuming ByteBuffer, _ chunks: ChunkedDecoder, _ limit: Int
    ) throws(RequestFault) -> Event? {
        var (body, chunks) = (consume body, chunks)
        switch head.framing {
        case .length(let length):
            guard let whole = self.buffer.readSlice(length: length) else {
                self.state = .body(head, request, body, chunks, limit: limit)
                return nil
            }
            body = whole
        case .chunked:
            let isComplete = try chunks.decode(&self.buffer, into: &body, limit: limit)
            guard isComplete else {
                self.state = .body(head, request, body, chunks, limit: limit)
                return nil
            }
        }
        return self.finished(request.with(body), head)
    }

    private mutating func finished(_ request: Request, _ head: RequestHead) -> Event {
        self.state = .head(scanned: 0)
        self.headed = nil
        return .request(request, head)
    }

    /// Skips a line end that some clients send after a body, to which it does not belong. Source: RFC 9112 §2.2
    /// - Returns: true if no part of a request line has arrived yet.
    private mutating func skipEmptyLines() throws(RequestFault) -> Bool {
        while self.buffer.getInteger(at: self.buffer.readerIndex, as: UInt16.self) == 0x0D0A {
            self.buffer.moveReaderIndex(forwardBy: 2)
        }
        guard let first = self.buffer.getInteger(at: self.buffer.readerIndex, as: UInt8.self) else { return true }
        if first == .carriageReturn, self.buffer.readableBytes == 1 { return true }
        // Reported immediately, since a client that uses TLS or another protocol would wait for an answer.
        guard first.isTokenCharacter else { throw .malformed("this is not HTTP/1.1; is it TLS on the plain port?") }
        return false
    }

    /// Searches for the empty line at the end of a head, from where the last search ended.
    private static func headLength(
        _ bytes: Span<UInt8>, _ scanned: inout Int, _ limits: HeadLimits
    ) throws(RequestFault) -> Int? {
        let end = min(bytes.count, limits.head)
        var index = scanned
        while index < end {
            if bytes[index] == .lineFeed {
                guard index > 0, bytes[index - 1] == .carriageReturn else {
                    throw .malformed("a line of the head does not end with CR LF")
                }
                if index >= 3, bytes[index - 2] == .lineFeed { return index + 1 }
            }
            index += 1
        }
        scanned = index
        guard bytes.count < limits.head else {
            for index in bytes.indices.prefix(limits.line) where bytes[index] == .lineFeed {
                throw RequestFault(
                    status: .requestHeaderFieldsTooLarge,
                    message: "request line and header may have \(limits.head) bytes at most")
            }
            throw RequestHead.lineTooLong(limits)
        }
        return nil
    }

    private func text(_ range: Range<Int>?) -> String? {
        guard let range else { return nil }
        return self.buffer.getString(at: self.buffer.readerIndex + range.lowerBound, length: range.count)
    }

    private func client(_ head: RequestHead) -> ClientAddress {
        guard self.peer.isTrusted else { return self.peer.client }
        return self.peer.client(forwardedFor: head.forwardedFor.compactMap { self.text($0) })
    }

    private func fields(_ head: RequestHead) -> Request.Fields {
        Request.Fields(
            authorization: self.text(head.authorization), ifNoneMatch: head.ifNoneMatch.compactMap { self.text($0) },
            ifModifiedSince: self.text(head.ifModifiedSince),
            others: head.others.compactMap { name, range in self.text(range).map { RequestField(name: name, value: $0) }
            })
    }
}
