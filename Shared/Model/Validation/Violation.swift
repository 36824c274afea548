/// One thing that is wrong in an order.
public struct Violation: Hashable, Sendable, CustomStringConvertible {
    /// `$.payment.total.amount`
    public let path: String
    /// The rest of the sentence: `must be a string, it is a number`.
    public let message: String

    public init(path: String, message: String) {
        self.path = path
        self.message = message
    }

    /// A member is not there that could still come, and nothing is wrong.
    var isMissing: Bool { self.message.hasPrefix("is missing") }

    /// The whole sentence.
    public var description: String { "\(self.path) \(self.message)" }
}
