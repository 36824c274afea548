/// An order as it is stored in Redis, without its package.
public struct OrderFields: Hashable, Sendable {
    public let key: OrderKey
    public let token: AuthenticationToken
    public let version: Int64
    public let modifiedEpochSeconds: Int64
    /// As `OrderState.documentBytes`.
    public let document: [UInt8]
    /// As `OrderState.sourcesBytes`.
    public let sources: [UInt8]
    /// As `OrderState.recentBytes`.
    public let recent: [UInt8]
    /// As `OrderState.contributionsBytes`.
    public let contributions: [UInt8]?

    init(
        key: OrderKey, token: AuthenticationToken, version: Int64, modifiedEpochSeconds: Int64, document: [UInt8],
        sources: [UInt8], recent: [UInt8], contributions: [UInt8]?
    ) {
        self.key = key
        self.token = token
        self.version = version
        self.modifiedEpochSeconds = modifiedEpochSeconds
        self.document = document
        self.sources = sources
        self.recent = recent
        self.contributions = contributions
    }

    public init(_ state: OrderState) {
        self.init(
            key: state.key, token: state.token, version: state.version,
            modifiedEpochSeconds: state.modifiedEpochSeconds, document: state.documentBytes,
            sources: state.sourcesBytes, recent: state.recentBytes, contributions: state.contributionsBytes)
    }
}
