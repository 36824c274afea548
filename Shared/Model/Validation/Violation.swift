/// One error in an order.
public struct Violation: Hashable, Sendable, CustomStringConvertible {
    /// `$.payment.total.amount`
    public let path: String
    /// The rest of the sentence: `must be a string, it is a number`.
    public let message: String

    public init(path: String, message: String) {
        self.path = path
        self.message = message
    }

    /// True if a member is missing, which may still arrive, and no value is wrong.
    var isMissing: Bool { self.message.hasPrefix("is missing") }

    /// The whole sentence.
    public var description: String { "\(self.path) \(self.message)" }
}
