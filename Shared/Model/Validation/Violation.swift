/// One error in an order.
public struct Violation: Hashable, Sendable, CustomStringConvertible {
    /// `$.payment.total.amount`
    public let path: String
    /// The rest of the sentence: `must be a string, it is a number`.
    public let message: String
    /// The value at fault as steps from the root; empty where a part of an order cannot be at fault alone.
    let place: [Step]
    /// True for a rule that the JSON Schema does not have.
    public let isBeyondSchema: Bool

    /// A step from a value to one inside it.
    enum Step: Hashable, Sendable {
        case member(String)
        case element(Int)
    }

    public init(path: String, message: String) { self.init(path: path, message: message, place: []) }

    init(path: String, message: String, place: [Step], isBeyondSchema: Bool = false) {
        self.path = path
        self.message = message
        self.place = place
        self.isBeyondSchema = isBeyondSchema
    }

    /// True if a member is missing, which may still arrive, and no value is wrong.
    var isMissing: Bool { self.message.hasPrefix("is missing") }

    /// The whole sentence.
    public var description: String { "\(self.path) \(self.message)" }
}
