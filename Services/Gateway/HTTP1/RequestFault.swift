import NIOHTTP1

/// The reason why bytes are not a request, as the answer after which the connection ends.
struct RequestFault: Error, Hashable {
    let status: HTTPResponseStatus
    /// For a person who reads the answer.
    let message: String

    /// Source: RFC 9112 §2.2: input that does not follow the grammar is answered with 400
    static func malformed(_ message: String) -> RequestFault { RequestFault(status: .badRequest, message: message) }
}
