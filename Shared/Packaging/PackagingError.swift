/// Why an order cannot be packaged.
public struct PackagingError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What happened, for programs.
    public enum Code: Hashable, Sendable {
        /// The package would be larger than Wallet takes.
        case tooLarge
        /// libcrypto did not sign.
        case signing
    }

    public let code: Code
    /// What happened, for people: the action, the reason, what to do.
    public let message: String
    public var description: String { self.message }

    /// - Parameter message: the action, the reason, what to do.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}
