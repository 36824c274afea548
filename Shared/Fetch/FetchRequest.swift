/// One request with all of its limits: a GET unless it has a body.
public struct FetchRequest: Sendable {
    /// An absolute https URL.
    public var url: String
    /// True for a server that the operator chose: its URL may have http. A redirect may not.
    public var mayBePlain = false
    /// Returns true if requests to a host are allowed; called for the URL and each redirect, before anything is sent.
    public var allows: @Sendable (FetchOrigin) -> Bool
    /// The `Accept` header.
    public var accept = "*/*"
    /// `If-None-Match`, quotes included, as returned by an earlier answer.
    public var entityTag: String?
    /// `If-Modified-Since`, as returned by an earlier answer.
    public var lastModified: String?
    /// The most bytes of content.
    public var sizeLimit = 1_000_000
    /// The time from the request to the last byte, including the wait in the queue and redirects.
    public var timeout: Duration = .seconds(20)
    /// The time for the look-up, connection and TLS handshake of each hop.
    public var connectTimeout: Duration = .seconds(5)
    /// The most redirects that are followed.
    var redirectLimit = 3
    /// The body of a POST with its media type; nil for a GET.
    public var body: (bytes: [UInt8], contentType: String)?
    /// More header fields. A value that cannot be sent in a header line fails the request with `.malformed`.
    public var headers: [(name: String, value: String)] = []
    /// The value of `Authorization` for one server. It is sent to no other one, and not once a redirect was followed.
    public var authorization: (origin: FetchOrigin, value: String)?
    /// The client certificate that is presented to servers.
    public var identity: FetchIdentity?
    /// Roots in PEM that the server's certificate must lead to; nil for the fetcher's own.
    public var rootsPEM: [UInt8]?
    /// The addresses that may be asked, also over a connection that another request has made; nil for the fetcher's own
    /// policy.
    public var addresses: AddressPolicy?
    /// True if an answer of any status is content, redirects among them.
    var takesAnyStatus = false
    /// True to make the connection and send nothing.
    var isConnectionOnly = false
    /// True for a new connection that no other request uses. libcurl sends a request again if a connection
    /// that was kept turns out to be dead, which must not happen to a request that must not be sent twice.
    /// Source: libcurl 7.88, `Curl_retry_request`
    public var isAlone = false

    public init(url: String, allows: @escaping @Sendable (FetchOrigin) -> Bool) {
        self.url = url
        self.allows = allows
    }

    /// - Throws: `FetchError` with code `.url` for a URL that is never fetched.
    public func check() throws(FetchError) { _ = try self.parsedURL() }

    func parsedURL() throws(FetchError) -> FetchURL { try FetchURL(self.url, mayBePlain: self.mayBePlain) }
}

/// A client certificate with its key, in PEM.
public struct FetchIdentity: Hashable, Sendable {
    public let certificatePEM: [UInt8]
    public let keyPEM: [UInt8]

    public init(certificatePEM: [UInt8], keyPEM: [UInt8]) {
        self.certificatePEM = certificatePEM
        self.keyPEM = keyPEM
    }
}

/// The server of a request: the subject of an allow-list.
public struct FetchOrigin: Hashable, Sendable {
    /// In lower case, as the name is looked up; an IPv6 address is in brackets.
    public let host: String
    /// 443 unless the URL says otherwise.
    public let port: Int

    public init(host: String, port: Int) {
        self.host = host
        self.port = port
    }
}

/// The result of a fetch.
public enum FetchResponse: Hashable, Sendable {
    /// 200 with its content, or any status if the request accepts that.
    case content(FetchedContent)
    /// 304: the content of an earlier answer is still valid.
    case notModified
}

/// Content with the validators for a later conditional request.
public struct FetchedContent: Hashable, Sendable {
    /// As received; nothing is decompressed.
    public let body: [UInt8]
    /// `ETag` with its quotes, if it may be sent back.
    public let entityTag: String?
    /// `Last-Modified`, if its text may be sent back.
    public let lastModified: String?
    public var status = 200
    /// `Content-Type`, if it is a text of printable characters.
    public var contentType: String?
}
