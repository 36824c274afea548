import NIOCore

/// A complete request, from any version of HTTP.
struct Request: Sendable {
    /// The methods that some path accepts.
    enum Method: Hashable, Sendable {
        case get, head, post, delete
        /// Accepted by the checkout role alone.
        case put, patch, options
        /// Anything else; no path accepts it.
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

    /// The header fields that matter for the answer. Each is nil or empty if it is absent.
    struct Fields: Hashable, Sendable {
        var authorization: String?
        /// One element for each field of the name.
        var ifNoneMatch: [String] = []
        var ifModifiedSince: String?
        /// Those that only some roles read; empty in the others.
        var others: [RequestField] = []
    }

    let method: Method
    /// Path and query, possibly after scheme and authority; printable ASCII.
    let target: String
    var fields: Fields
    var body: ByteBuffer
    /// The client, for limits per client.
    let client: ClientAddress
    /// For answers that take their time; nil if the presence is unknown.
    var presence: Presence?
}
