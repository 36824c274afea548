/// One GET with all of its limits.
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
    public var redirectLimit = 3

    public init(url: String, allows: @escaping @Sendable (FetchOrigin) -> Bool) {
        self.url = url
        self.allows = allows
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
