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
