/// The reason why a tool failed: the operation, with the value.
struct ToolError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of failure, for callers that react.
    enum Code: Hashable, Sendable {
        case connection, timeout, closed, unavailable, unauthorized, `protocol`, input, file, program, check
        /// A package that is older than an earlier one.
        case older
    }

    /// True if the peer may be unavailable only temporarily.
    var isPassing: Bool { [.connection, .timeout, .closed, .unavailable].contains(self.code) }

    let code: Code
    /// The action in gerund form and its result: `"reading a.order: no such file"`.
    let message: String

    var description: String { self.message }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}
