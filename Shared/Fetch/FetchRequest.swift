/// One request with all of its limits: a GET unless it has a body.
public struct FetchRequest: Sendable {
    /// An absolute https URL.
    public var url: String
    /// True if requests to a host are allowed; called for the URL and again for each redirect, before anything is sent.
    public var allows: @Sendable (FetchOrigin) -> Bool
    /// The `Accept` header.
    public var accept = "*/*"
    /// `If-None-Match`, quotes included, as returned by an earlier answer.
    public var entityTag: String?
    /// `If-Modified-Since`, as returned by an earlier answer.
    public var lastModified: String?
    /// Most bytes of content.
    public var sizeLimit = 1_000_000
    /// Time from the request to the last byte, the wait in the queue and redirects included.
    public var timeout: Duration = .seconds(20)
    /// Time for the look-up, connection and TLS handshake of each hop.
    public var connectTimeout: Duration = .seconds(5)
    /// The most redirects that are followed.
    var redirectLimit = 3
    /// The body of a POST with its media type; nil for a GET.
    public var body: (bytes: [UInt8], contentType: String)?
    /// More header fields. One that could not stand in a line of its own ends the request with `.malformed`.
    public var headers: [(name: String, value: String)] = []
    /// The client certificate that servers are shown.
    public var identity: FetchIdentity?
    /// Roots in PEM that the server's certificate must lead to; nil for the fetcher's own.
    public var rootsPEM: [UInt8]?
    /// The addresses that may be connected to; nil for the fetcher's own policy.
    public var addresses: AddressPolicy?
    /// True if an answer of any status is content, redirects among them.
    var takesAnyStatus = false
    /// True for a new connection that nobody else uses. libcurl sends a request once more when a connection
    /// that was kept turns out to be dead; a request that must not be sent twice cannot have that.
    /// Source: libcurl 7.88, `Curl_retry_request`
    public var isAlone = false

    public init(url: String, allows: @escaping @Sendable (FetchOrigin) -> Bool) {
        self.url = url
        self.allows = allows
    }
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
