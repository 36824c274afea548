/// One header field of a response, its name in lower case.
public struct HTTP2Header: Hashable, Sendable {
    public let name: String
    /// As received, with bytes that are not UTF-8 replaced.
    public let value: String
}
