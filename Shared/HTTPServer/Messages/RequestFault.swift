public import NIOHTTP1

/// The reason why bytes are not a request, as the answer after which the connection ends.
public struct RequestFault: Error, Hashable {
    /// The status of the answer.
    public let status: HTTPResponseStatus
    /// For a person who reads the answer.
    public let message: String

    /// Makes a fault from the answer.
    public init(status: HTTPResponseStatus, message: String) {
        self.status = status
        self.message = message
    }

    /// Source: RFC 9112 §2.2: input that does not follow the grammar is answered with 400
    static func malformed(_ message: String) -> RequestFault { RequestFault(status: .badRequest, message: message) }
}
