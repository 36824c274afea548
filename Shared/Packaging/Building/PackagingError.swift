/// The reason why an order cannot be packaged.
public struct PackagingError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of error, for programs.
    public enum Code: Hashable, Sendable {
        /// The package would be larger than Wallet accepts.
        case tooLarge
        /// libcrypto did not sign.
        case signing
    }

    public let code: Code
    /// The error, for people: the action, the reason, the correction.
    public let message: String
    public var description: String { self.message }

    /// - Parameter message: the action, the reason, the correction.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}
