import CCurl

/// An https URL, or one with http of a server that an operator chose, parsed by the library that connects: the checked
/// URL and the requested one cannot differ.
struct FetchURL: Hashable, Sendable {
    /// Normalized, without fragment.
    let text: String
    let origin: FetchOrigin
    /// True for http.
    let isPlain: Bool

    /// The longest URL, in bytes. Longer ones, which no legitimate publisher needs, are refused.
    private static let lengthLimit = 8192

    /// - Parameters:
    ///   - text: an absolute URL, or with a base also a relative one.
    ///   - base: the URL that a redirect is relative to.
    ///   - mayBePlain: true to accept http.
    /// - Throws: `FetchError` with code `.url`; user and password in it are refused as well.
    init(_ text: String, relativeTo base: FetchURL? = nil, mayBePlain: Bool = false) throws(FetchError) {
        guard text.utf8.count <= Self.lengthLimit, text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
            throw FetchError(.url, "reading a URL: too long, or control characters in it")
        }
        let parts = try URLParts()
        if let base { try parts.set(CURLUPART_URL, base.text) }
        try parts.set(CURLUPART_URL, text, CURLU_DISALLOW_USER | CURLU_URLENCODE)
        let scheme = try parts.get(CURLUPART_SCHEME)
        self.isPlain = mayBePlain && scheme == "http"
        guard self.isPlain || scheme == "https" else { throw FetchError(.url, "reading a URL: not https") }
        try parts.clear(CURLUPART_FRAGMENT)
        let host = try parts.get(CURLUPART_HOST)
        guard let port = Int(try parts.get(CURLUPART_PORT, CURLU_DEFAULT_PORT)), !host.isEmpty else {
            throw FetchError(.url, "reading a URL: no host or no port")
        }
        self.origin = FetchOrigin(host: host.lowercased(), port: port)
        self.text = try parts.get(CURLUPART_URL)
    }
}

/// The sole owner of one `CURLU *`, on the thread that made it.
@safe
private struct URLParts: ~Copyable {
    private let raw: OpaquePointer

    init() throws(FetchError) {
        guard let raw = unsafe curl_url() else { throw FetchError(.library, "reading a URL: no memory") }
        unsafe self.raw = raw
    }

    deinit { unsafe curl_url_cleanup(self.raw) }

    func set(_ part: CURLUPart, _ value: String, _ flags: Int32 = 0) throws(FetchError) {
        try Self.check(unsafe curl_url_set(self.raw, part, value, UInt32(bitPattern: flags)))
    }

    func clear(_ part: CURLUPart) throws(FetchError) { try Self.check(unsafe curl_url_set(self.raw, part, nil, 0)) }

    func get(_ part: CURLUPart, _ flags: Int32 = 0) throws(FetchError) -> String {
        var text: UnsafeMutablePointer<CChar>?
        let code = unsafe curl_url_get(self.raw, part, &text, UInt32(bitPattern: flags))
        defer { unsafe curl_free(text) }

        try Self.check(code)
        guard let text = unsafe text else { throw FetchError(.url, "reading a URL: a part is missing") }
        return unsafe String(cString: text)
    }

    private static func check(_ code: CURLUcode) throws(FetchError) {
        // Only the number: libcurl's text needs a newer version than Debian's oldest.
        guard code == CURLUE_OK else { throw FetchError(.url, "reading a URL: refused, code \(code.rawValue)") }
    }
}
