/// One GET with everything that bounds it.
public struct FetchRequest: Sendable {
    /// An absolute https URL.
    public var url: String
    /// Whether a host may be asked; called for the URL and again for each redirect, before anything is sent.
    public var allows: @Sendable (FetchOrigin) -> Bool
    /// The `Accept` header.
    public var accept = "*/*"
    /// `If-None-Match`, quotes included, as an earlier answer gave it.
    public var entityTag: String?
    /// `If-Modified-Since`, as an earlier answer gave it.
    public var lastModified: String?
    /// Most bytes of content.
    public var sizeLimit = 1_000_000
    /// From asking to the last byte, waiting for a free place and redirects included.
    public var timeout: Duration = .seconds(20)
    /// For name, connection and encryption of each hop.
    public var connectTimeout: Duration = .seconds(5)
    /// How many redirects are followed.
    public var redirectLimit = 3

    public init(url: String, allows: @escaping @Sendable (FetchOrigin) -> Bool) {
        self.url = url
        self.allows = allows
    }
}

/// Who is asked: what an allow-list is about.
public struct FetchOrigin: Hashable, Sendable {
    /// In lower case, as the name is looked up; an IPv6 address stands in brackets.
    public let host: String
    /// 443 unless the URL says otherwise.
    public let port: Int

    public init(host: String, port: Int) {
        self.host = host
        self.port = port
    }
}
