/// Why something could not be fetched.
public struct FetchError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What happened, for programs.
    public enum Code: Hashable, Sendable {
        /// The address, or that of a redirect, is no https URL.
        case url
        /// The request does not allow the host and port, its own or a redirect's.
        case hostNotAllowed
        /// Each address of the host is one that must not be connected to.
        case addressNotAllowed
        /// More redirects than the request allows.
        case tooManyRedirects
        /// An answer that is neither content nor "not modified".
        case status(Int)
        /// The content is larger than the request allows.
        case tooLarge
        /// Not in time.
        case timeout
        /// No address, no connection, or one that was cut.
        case connection
        /// The server's certificate does not hold, or there is no common encryption.
        case tls
        /// What came is no HTTP answer.
        case malformed
        /// Too many requests wait already.
        case busy
        /// The task that asked was cancelled.
        case cancelled
        /// The fetcher was closed.
        case closed
        /// libcurl failed in a way that is nobody's fault outside.
        case library
    }

    public let code: Code
    /// What happened, for people. Names the host only: path and query may hold a key to the content.
    public let message: String
    /// When the server wants to be asked again, in seconds; nil if it did not say.
    ///
    /// Source: RFC 9110 §10.2.3
    public let retryAfterSeconds: Int64?
    public var description: String { self.message }

    init(_ code: Code, _ message: String, retryAfterSeconds: Int64? = nil) {
        self.code = code
        self.message = message
        self.retryAfterSeconds = retryAfterSeconds
    }
}
