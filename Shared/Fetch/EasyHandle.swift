import CCurl
import Glibc

/// The sole owner of one `CURL *`, its header lists and its callbacks' reference, on the fetcher's thread only.
@safe
struct EasyHandle: ~Copyable {
    let raw: UnsafeMutableRawPointer
    /// +1 on the object that the callbacks write to, released when no callback can run any more.
    private let sink: Unmanaged<TransferSink>
    private var lines: UnsafeMutablePointer<curl_slist>?
    private var pins: UnsafeMutablePointer<curl_slist>?
    private var detours: UnsafeMutablePointer<curl_slist>?

    /// The identity of the handle, as a dictionary key.
    struct Identity: Hashable {
        private let value: UInt
        init(_ raw: UnsafeMutableRawPointer?) { self.value = UInt(bitPattern: raw) }
    }

    init(_ sink: TransferSink) throws(FetchError) {
        guard let raw = unsafe curl_easy_init() else { throw FetchError(.library, "making a transfer: refused") }
        unsafe self.raw = raw
        unsafe self.sink = Unmanaged.passRetained(sink)
        unsafe self.lines = nil
        unsafe self.pins = nil
        unsafe self.detours = nil
    }

    /// Makes libcurl report to the sink; without it no transfer may run.
    func setCallbacks() throws(FetchError) {
        for option in [CURLOPT_WRITEDATA, CURLOPT_HEADERDATA, CURLOPT_OPENSOCKETDATA, CURLOPT_PREREQDATA] {
            let code = unsafe ccurl_set_context(self.raw, option, self.sink.toOpaque())
            try Self.check(code, option)
        }
        try Self.check(
            unsafe ccurl_set_receiver(self.raw, CURLOPT_WRITEFUNCTION, TransferSink.receiveBody), CURLOPT_WRITEFUNCTION)
        try Self.check(
            unsafe ccurl_set_receiver(self.raw, CURLOPT_HEADERFUNCTION, TransferSink.receiveHeader),
            CURLOPT_HEADERFUNCTION)
        try Self.check(
            unsafe ccurl_set_open_socket(self.raw, TransferSink.openSocket), CURLOPT_OPENSOCKETFUNCTION)
        try Self.check(
            unsafe ccurl_set_before_request(self.raw, TransferSink.beforeRequest), CURLOPT_PREREQFUNCTION)
    }

    deinit {
        unsafe curl_easy_cleanup(self.raw)
        // After the handle, which uses them. Both calls accept nil.
        unsafe curl_slist_free_all(self.lines)
        unsafe curl_slist_free_all(self.pins)
        unsafe curl_slist_free_all(self.detours)
        unsafe self.sink.release()
    }

    var identity: Identity { unsafe Identity(self.raw) }

    func set(_ option: CURLoption, _ value: Int) throws(FetchError) {
        try Self.check(unsafe ccurl_set_long(self.raw, option, value), option)
    }

    func set(_ option: CURLoption, offset value: Int64) throws(FetchError) {
        try Self.check(unsafe ccurl_set_offset(self.raw, option, Int(value)), option)
    }

    func set(_ option: CURLoption, _ value: String?) throws(FetchError) {
        try Self.check(unsafe ccurl_set_text(self.raw, option, value), option)
    }

    func set(_ option: CURLoption, copying bytes: [UInt8]) throws(FetchError) {
        try Self.check(unsafe ccurl_set_blob(self.raw, option, bytes, bytes.count), option)
    }

    /// Allows one protocol only, whatever the URL says.
    func setProtocol(isPlain: Bool) throws(FetchError) {
        let code = unsafe isPlain ? ccurl_set_http_only(self.raw) : ccurl_set_https_only(self.raw)
        try Self.check(code, CURLOPT_PROTOCOLS)
    }

    /// Sets the header lines of the request besides libcurl's own.
    mutating func setHeaders(_ lines: [String]) throws(FetchError) {
        for line in lines { try unsafe Self.append(line, to: &self.lines) }
        try Self.check(unsafe ccurl_set_list(self.raw, CURLOPT_HTTPHEADER, self.lines), CURLOPT_HTTPHEADER)
    }

    /// Sets addresses as `host:port:address`, each in place of a look-up.
    mutating func setPins(_ pins: [String]) throws(FetchError) {
        for pin in pins { try unsafe Self.append(pin, to: &self.pins) }
        try Self.check(unsafe ccurl_set_list(self.raw, CURLOPT_RESOLVE, self.pins), CURLOPT_RESOLVE)
    }

    /// Sets detours as `host:port:address:port`, each in place of the connection that the URL asks for.
    mutating func setDetours(_ detours: [String]) throws(FetchError) {
        for detour in detours { try unsafe Self.append(detour, to: &self.detours) }
        try Self.check(unsafe ccurl_set_list(self.raw, CURLOPT_CONNECT_TO, self.detours), CURLOPT_CONNECT_TO)
    }

    /// True if libcurl was built with a file of the system's roots.
    static let hasRootsFile = ccurl_has_roots_file() != 0

    /// Sets the body of a POST. The bytes are copied.
    func setBody(_ bytes: [UInt8]) throws(FetchError) {
        try self.set(CURLOPT_POST, 1)
        try self.set(CURLOPT_POSTFIELDSIZE_LARGE, offset: Int64(bytes.count))
        try Self.check(unsafe ccurl_set_bytes(self.raw, CURLOPT_COPYPOSTFIELDS, bytes), CURLOPT_COPYPOSTFIELDS)
    }

    /// True if the transfer got as far as sending the request: look-up, connection and TLS handshake were done.
    var mayHaveSent: Bool {
        var microseconds: curl_off_t = 0
        let code = unsafe ccurl_info_offset(self.raw, CURLINFO_PRETRANSFER_TIME_T, &microseconds)
        return code != CURLE_OK || microseconds > 0
    }

    /// The status of the answer, 0 if there was none.
    var status: Int {
        var value = 0
        return unsafe ccurl_info_long(self.raw, CURLINFO_RESPONSE_CODE, &value) == CURLE_OK ? value : 0
    }

    /// The value of `Retry-After` in seconds, 0 without one.
    var retryAfterSeconds: Int64 {
        var value: curl_off_t = 0
        return unsafe ccurl_info_offset(self.raw, CURLINFO_RETRY_AFTER, &value) == CURLE_OK ? Int64(value) : 0
    }

    private static func append(
        _ line: String, to list: inout UnsafeMutablePointer<curl_slist>?
    ) throws(FetchError) {
        guard let longer = unsafe curl_slist_append(list, line) else {
            throw FetchError(.library, "making a list of lines: no memory")
        }
        unsafe list = longer
    }

    private static func check(_ code: CURLcode, _ option: CURLoption) throws(FetchError) {
        guard code == CURLE_OK else {
            throw FetchError(.library, "setting option \(option.rawValue): code \(code.rawValue)")
        }
    }
}
