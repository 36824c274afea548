import CNGHTTP2

/// Creates a client session whose callbacks write to the `SessionLedger` at `context`.
///
/// - Returns: nil if there is no memory.
func makeSession(context: UnsafeMutablePointer<SessionLedger>) -> OpaquePointer? {
    var callbacks: OpaquePointer?
    guard unsafe nghttp2_session_callbacks_new(&callbacks) == 0 else { return nil }
    defer { unsafe nghttp2_session_callbacks_del(callbacks) }

    unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, onHeadersBegin)
    unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, onHeader)
    unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, onData)
    unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, onFrame)
    unsafe nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, onFrameNotSent)
    unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, onStreamClosed)
    var session: OpaquePointer?
    guard unsafe nghttp2_session_client_new(&session, callbacks, context) == 0 else { return nil }
    return unsafe session
}

/// Copies the next part of a request's body into a DATA frame. The data source's pointer holds the slot's number.
let readBody: nghttp2_data_source_read_callback = { _, _, target, length, flags, source, context in
    guard let ledger = unsafe ledger(context), let target = unsafe target,
        let part = unsafe ledger.pointee.readBody(
            slot(unsafe source?.pointee.ptr), into: UnsafeMutableBufferPointer(start: target, count: length))
    else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
    if part.isLast { unsafe flags?.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
    return part.count
}

private let onHeadersBegin: nghttp2_on_begin_headers_callback = { session, frame, context in
    guard let ledger = unsafe ledger(context), let frame = unsafe frame else { return 0 }
    let stream = unsafe nghttp2_session_get_stream_user_data(session, frame.pointee.hd.stream_id)
    unsafe ledger.pointee.headersBegin(slot(stream))
    return 0
}

private let onHeader: nghttp2_on_header_callback = { _, _, name, nameLength, value, valueLength, _, context in
    guard let ledger = unsafe ledger(context) else { return 0 }
    unsafe ledger.pointee.header(
        name: UnsafeBufferPointer(start: name, count: nameLength),
        value: UnsafeBufferPointer(start: value, count: valueLength))
    return 0
}

private let onData: nghttp2_on_data_chunk_recv_callback = { session, _, stream, bytes, length, context in
    guard let ledger = unsafe ledger(context) else { return 0 }
    let data = unsafe nghttp2_session_get_stream_user_data(session, stream)
    unsafe ledger.pointee.data(slot(data), UnsafeBufferPointer(start: bytes, count: length))
    return 0
}

private let onFrame: nghttp2_on_frame_recv_callback = { session, frame, context in
    guard let ledger = unsafe ledger(context), let frame = unsafe frame else { return 0 }
    let header = unsafe frame.pointee.hd
    let isAcknowledgement = header.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0
    switch UInt32(header.type) {
    case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
        if header.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0 {
            let data = unsafe nghttp2_session_get_stream_user_data(session, header.stream_id)
            unsafe ledger.pointee.completed(slot(data))
        }
    case NGHTTP2_SETTINGS.rawValue where !isAcknowledgement:
        let limit = unsafe nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
        unsafe ledger.pointee.events.append(.settings(maxConcurrentStreams: limit))
    case NGHTTP2_PING.rawValue where isAcknowledgement:
        let number = unsafe withUnsafeBytes(of: frame.pointee.ping.opaque_data) { bytes in
            unsafe bytes.loadUnaligned(as: UInt64.self)
        }
        unsafe ledger.pointee.events.append(.pingAcknowledged(UInt64(bigEndian: number)))
    case NGHTTP2_GOAWAY.rawValue:
        let goAway = unsafe frame.pointee.goaway
        let length = unsafe min(goAway.opaque_data_len, HTTP2ClientSession.keptBytes)
        let debugData = unsafe Array(UnsafeBufferPointer(start: goAway.opaque_data, count: length))
        let code = unsafe HTTP2ErrorCode(rawValue: goAway.error_code)
        let lastStream = unsafe goAway.last_stream_id
        unsafe ledger.pointee.events.append(.goAway(lastStream: lastStream, code: code, debugData: debugData))
    default: break
    }
    return 0
}

/// Ends a request that was never sent, because the peer sent GOAWAY first or the request was cancelled: nghttp2 has no
/// stream to close for it.
private let onFrameNotSent: nghttp2_on_frame_not_send_callback = { _, frame, _, context in
    guard let ledger = unsafe ledger(context), let frame = unsafe frame else { return 0 }
    let header = unsafe frame.pointee.hd
    if UInt32(header.type) == NGHTTP2_HEADERS.rawValue, let slot = unsafe ledger.pointee.slot(of: header.stream_id) {
        unsafe ledger.pointee.ended(slot, stream: header.stream_id, code: HTTP2ErrorCode.refusedStream.rawValue)
    }
    return 0
}

private let onStreamClosed: nghttp2_on_stream_close_callback = { session, stream, code, context in
    guard let ledger = unsafe ledger(context) else { return 0 }
    let data = unsafe nghttp2_session_get_stream_user_data(session, stream)
    unsafe ledger.pointee.ended(slot(data), stream: stream, code: code)
    return 0
}

/// Returns the ledger at a callback's context; it outlives the session (`HTTP2ClientSession.deinit`).
private func ledger(_ context: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<SessionLedger>? {
    unsafe context?.assumingMemoryBound(to: SessionLedger.self)
}

/// Returns the slot stored as a stream's user data, where it is one higher so that NULL means none; -1 for NULL.
private func slot(_ userData: UnsafeMutableRawPointer?) -> Int { Int(bitPattern: userData) - 1 }
