import NIOHTTP1

/// Why bytes are no request that is read any further: the answer, behind which the connection ends.
struct RequestFault: Error, Hashable {
    let status: HTTPResponseStatus
    /// For a person who reads the answer.
    let message: String

    /// Source: RFC 9112 §2.2: what does not follow the grammar is answered 400
    static func malformed(_ message: String) -> RequestFault { RequestFault(status: .badRequest, message: message) }
}
