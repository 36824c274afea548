/// Why a tool could not do its work: what it was doing, with the value.
struct ToolError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What kind of failure it is, for callers that react.
    enum Code: Hashable, Sendable {
        case connection, timeout, closed, unavailable, unauthorized, `protocol`, input, file, program, check
        /// A package that is older than one before.
        case older
    }

    /// Whether the other side may only be away for a moment.
    var isPassing: Bool { [.connection, .timeout, .closed, .unavailable].contains(self.code) }

    let code: Code
    /// The action in gerund form and what came of it: `"reading a.order: no such file"`.
    let message: String

    var description: String { self.message }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}
