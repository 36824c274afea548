/// The reason why a fetch failed.
public struct FetchError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of failure, for programs.
    public enum Code: Hashable, Sendable {
        /// The address, or that of a redirect, is not an https URL.
        case url
        /// The request does not allow the host and port, its own or a redirect's.
        case hostNotAllowed
        /// None of the host's addresses may be connected to.
        case addressNotAllowed
        /// More redirects than the request allows.
        case tooManyRedirects
        /// An answer that is neither content nor "not modified".
        case status(Int)
        /// The content is larger than the request allows.
        case tooLarge
        /// The time limit has passed.
        case timeout
        /// No address, no connection, or a connection that was cut.
        case connection
        /// The server's certificate is not valid, or there is no common cipher.
        case tls
        /// The answer is not HTTP.
        case malformed
        /// Too many requests are waiting already.
        case busy
        /// The task that made the request was cancelled.
        case cancelled
        /// The fetcher was closed.
        case closed
        /// libcurl failed for a reason other than the server or the network.
        case library
    }

    public let code: Code
    /// The failure, for people. Names the host only: path and query may hold a key to the content.
    public let message: String
    /// The time in seconds after which the server allows the next request; nil if it named none.
    ///
    /// Source: RFC 9110 §10.2.3
    public let retryAfterSeconds: Int64?
    /// False if it is certain that no byte of the request went out.
    public var mayHaveBeenSent = false
    public var description: String { self.message }

    init(_ code: Code, _ message: String, retryAfterSeconds: Int64? = nil) {
        self.code = code
        self.message = message
        self.retryAfterSeconds = retryAfterSeconds
    }
}
