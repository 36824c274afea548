/// The reason why a session cannot continue, or a request cannot be submitted to it.
///
/// Two errors are equal if their codes are equal.
public struct HTTP2Error: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of error, by the action it requires.
    public enum Code: Hashable, Sendable {
        /// nghttp2 could not allocate memory, or refused a call.
        case library
        /// The peer's bytes are not HTTP/2, or it floods us; the connection is lost.
        case connection
        /// No stream identifier is left: a new connection is needed.
        case noNewStreams
    }

    public let code: Code
    public let message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { self.message }
    public static func == (left: Self, right: Self) -> Bool { left.code == right.code }
    public func hash(into hasher: inout Hasher) { hasher.combine(self.code) }
}
