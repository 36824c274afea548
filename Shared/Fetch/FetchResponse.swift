/// What came of a fetch.
public enum FetchResponse: Hashable, Sendable {
    /// 200 with its content.
    case content(FetchedContent)
    /// 304: what an earlier answer gave still holds.
    case notModified
}

/// Content with what is needed to ask later whether it still holds.
public struct FetchedContent: Hashable, Sendable {
    /// As it came; nothing is decompressed.
    public let body: [UInt8]
    /// `ETag` with its quotes, if it is one that may be sent back.
    public let entityTag: String?
    /// `Last-Modified`, if it is a text that may be sent back.
    public let lastModified: String?
}
