import NIOCore

/// A complete request, whatever version of HTTP brought it.
struct Request: Sendable {
    /// The methods that some path takes.
    enum Method: Hashable, Sendable {
        case get, head, post, delete
        /// Taken by the checkout role alone.
        case put, patch, options
        /// Anything else; no path takes it.
        case other

        init(_ name: String) {
            switch name {
            case "GET": self = .get
            case "HEAD": self = .head
            case "POST": self = .post
            case "DELETE": self = .delete
            case "PUT": self = .put
            case "PATCH": self = .patch
            case "OPTIONS": self = .options
            default: self = .other
            }
        }
    }

    /// The header fields that decide something. Each is nil or empty if it did not come.
    struct Fields: Hashable, Sendable {
        var authorization: String?
        /// One element for each field of the name.
        var ifNoneMatch: [String] = []
        var ifModifiedSince: String?
        /// Those that only some roles read; empty in the others.
        var others: [RequestField] = []
    }

    let method: Method
    /// Path and query, possibly behind scheme and authority; printable ASCII.
    let target: String
    var fields: Fields
    var body: ByteBuffer
    /// For limits that hold per client.
    let client: ClientAddress
    /// For answers that take their time; nil where nobody can tell.
    var presence: Presence?
}
