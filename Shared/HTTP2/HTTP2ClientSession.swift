import CNGHTTP2
public import NIOCore

/// One HTTP/2 client session: bytes in, bytes out, events. No I/O and no policy.
///
/// Owner: this object owns the `nghttp2_session` and its ledger, and frees both. Thread: one, its user's (an event
/// loop); not Sendable.
/// Bounded: the session keeps only named headers, and 4 KiB of each body, header value and GOAWAY's debug data;
/// nghttp2 limits header blocks and floods of control frames.
///
/// Order of use: `receive` or `submit`, then `write` until it appends nothing, then `takeEvents` (writing can end
/// streams, too).
@safe
public final class HTTP2ClientSession {
    /// The maximum number of bytes kept of a response's body, of a header's value and of GOAWAY's debug data.
    static let keptBytes = 4096

    private let raw: OpaquePointer
    /// Freed only after `nghttp2_session_del` has returned, when no callback can run.
    private let ledger: UnsafeMutablePointer<SessionLedger>

    /// - Parameter keptHeaders: the names, in lower case, of the response headers to report.
    /// - Throws: `HTTP2Error` with code `.library` if nghttp2 has no memory.
    public init(keptHeaders: [String]) throws(HTTP2Error) {
        let ledger = UnsafeMutablePointer<SessionLedger>.allocate(capacity: 1)
        unsafe ledger.initialize(to: SessionLedger(keptHeaders: keptHeaders, keptBytes: Self.keptBytes))
        guard let raw = unsafe makeSession(context: ledger) else {
            unsafe ledger.deinitialize(count: 1)
            unsafe ledger.deallocate()
            throw HTTP2Error(.library, "making an HTTP/2 session: out of memory")
        }
        unsafe self.raw = raw
        unsafe self.ledger = ledger
        // The defaults of RFC 9113 §6.5.2 except that the server may not push.
        var settings = nghttp2_settings_entry(
            settings_id: Int32(bitPattern: NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0)
        try check(unsafe nghttp2_submit_settings(raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), &settings, 1))
    }

    deinit {
        unsafe nghttp2_session_del(self.raw)
        unsafe self.ledger.deinitialize(count: 1)
        unsafe self.ledger.deallocate()
    }

    /// True if `takeEvents` has something to return.
    public var hasEvents: Bool { unsafe !self.ledger.pointee.events.isEmpty }

    /// The number of events that `takeEvents` would return.
    public var eventCount: Int { unsafe self.ledger.pointee.events.count }

    /// The number of submitted requests that have not ended.
    public var openStreams: Int { unsafe self.ledger.pointee.openStreams }

    /// True if nothing is left to read or write, so that the connection can be closed.
    public var isFinished: Bool {
        unsafe nghttp2_session_want_read(self.raw) == 0 && nghttp2_session_want_write(self.raw) == 0
    }

    /// Processes bytes from the peer. Only the session's owner calls it, never a callback of nghttp2.
    ///
    /// - Throws: `HTTP2Error` with code `.connection`; `write` may then still append a GOAWAY for the peer.
    public func receive(_ bytes: ByteBuffer) throws(HTTP2Error) {
        let taken = unsafe bytes.withUnsafeReadableBytes { bytes in
            unsafe nghttp2_session_mem_recv(
                self.raw, bytes.assumingMemoryBound(to: UInt8.self).baseAddress, bytes.count)
        }
        guard taken >= 0 else {
            throw HTTP2Error(.connection, "reading HTTP/2 frames: \(describe(Int32(clamping: taken)))")
        }
    }

    /// Appends all bytes that can be sent now.
    ///
    /// Request bodies wait while a flow control window of the peer is exhausted; other frames do not.
    public func write(into buffer: inout ByteBuffer) throws(HTTP2Error) {
        while true {
            // The pointer is valid only until the next call (nghttp2.h, nghttp2_session_mem_send).
            var start: UnsafePointer<UInt8>?
            let count = unsafe nghttp2_session_mem_send(self.raw, &start)
            guard count >= 0 else {
                throw HTTP2Error(.library, "writing HTTP/2 frames: \(describe(Int32(clamping: count)))")
            }
            guard count > 0, let start = unsafe start else { return }
            unsafe buffer.writeBytes(UnsafeRawBufferPointer(start: start, count: count))
        }
    }

    /// Returns the events so far, swapped with an array whose storage is reused.
    ///
    /// - Parameter events: receives the events; its previous content is dropped.
    public func takeEvents(into events: inout [HTTP2Event]) {
        events.removeAll(keepingCapacity: true)
        unsafe swap(&events, &self.ledger.pointee.events)
    }

    /// Queues a request, which the next `write` sends, or keeps until the peer's limit of streams allows it.
    ///
    /// After a GOAWAY of the peer the request ends unsent, with REFUSED_STREAM.
    ///
    /// - Parameter tag: the caller's own number, returned in `HTTP2StreamEnd`.
    /// - Returns: the stream's identifier.
    /// - Throws: `HTTP2Error` with code `.noNewStreams` if all 2^30 stream identifiers are used.
    @discardableResult
    public func submit(_ block: borrowing HTTP2HeaderBlock, body: [UInt8], tag: Int) throws(HTTP2Error) -> Int32 {
        let slot = unsafe self.ledger.pointee.reserve(tag: tag, requestBody: body)
        let stream = unsafe block.bytes.withUnsafeBufferPointer { bytes in
            unsafe self.submit(fields: block.fields, bytes: bytes, slot: slot)
        }
        guard stream > 0 else {
            unsafe self.ledger.pointee.cancelReservation(slot)
            let isSpent = stream == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE.rawValue
            throw HTTP2Error(isSpent ? .noNewStreams : .library, "submitting a request: \(describe(stream))")
        }
        unsafe self.ledger.pointee.opened(slot, stream: stream)
        return stream
    }

    /// Resets a stream; its `.streamEnded` is available after the next `write`.
    ///
    /// A second call, or a call after the stream has ended, does nothing: a request that has not been sent is cancelled
    /// by the first call, and nghttp2 would send the second as RST_STREAM of an idle stream, which ends the connection
    /// (RFC 9113 §6.4).
    public func reset(_ stream: Int32, _ code: HTTP2ErrorCode) throws(HTTP2Error) {
        guard unsafe self.ledger.pointee.markReset(stream) else { return }
        try check(unsafe nghttp2_submit_rst_stream(self.raw, 0, stream, code.rawValue))
    }

    /// Queues a PING; the peer's answer is `.pingAcknowledged` with the same number.
    public func ping(_ number: UInt64) throws(HTTP2Error) {
        try check(
            unsafe withUnsafeBytes(of: number.bigEndian) { bytes in
                unsafe nghttp2_submit_ping(self.raw, 0, bytes.assumingMemoryBound(to: UInt8.self).baseAddress)
            })
    }

    /// Queues GOAWAY; after the next `write` the session is finished.
    public func terminate() throws(HTTP2Error) {
        try check(unsafe nghttp2_session_terminate_session(self.raw, HTTP2ErrorCode.noError.rawValue))
    }

    private func submit(fields: [HTTP2HeaderBlock.Field], bytes: UnsafeBufferPointer<UInt8>, slot: Int) -> Int32 {
        guard let base = unsafe UnsafeMutablePointer(mutating: bytes.baseAddress) else { return -1 }
        // nghttp2 copies names and values (nghttp2.h, nghttp2_submit_request).
        return unsafe withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: fields.count) { pairs in
            for index in fields.indices {
                let field = fields[index]
                let flag = field.isIndexed ? NGHTTP2_NV_FLAG_NONE : NGHTTP2_NV_FLAG_NO_INDEX
                unsafe pairs.initializeElement(
                    at: index,
                    to: nghttp2_nv(
                        name: base + field.name.lowerBound, value: base + field.value.lowerBound,
                        namelen: field.name.count, valuelen: field.value.count, flags: UInt8(flag.rawValue)))
            }
            var provider = unsafe nghttp2_data_provider()
            unsafe provider.source.ptr = UnsafeMutableRawPointer(bitPattern: slot + 1)
            unsafe provider.read_callback = readBody
            return unsafe nghttp2_submit_request(
                self.raw, nil, pairs.baseAddress, pairs.count, &provider, UnsafeMutableRawPointer(bitPattern: slot + 1))
        }
    }
}

/// Returns the version of nghttp2 that this process runs with.
public func nghttp2Version() -> String {
    // With 0 as the minimum version the answer is never NULL (nghttp2.h, nghttp2_version).
    unsafe String(cString: nghttp2_version(0).pointee.version_str)
}

/// Returns nghttp2's own text for one of its error codes.
func describe(_ code: Int32) -> String { unsafe String(cString: nghttp2_strerror(code)) }

private func check(_ code: Int32) throws(HTTP2Error) {
    guard code == 0 else { throw HTTP2Error(.library, "queueing an HTTP/2 frame: \(describe(code))") }
}

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

/// One header field of a response, its name in lower case.
public struct HTTP2Header: Hashable, Sendable {
    public let name: String
    /// As received, with bytes that are not UTF-8 replaced.
    public let value: String
}

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
