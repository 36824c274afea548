import Model
import NIOCore
import NIOHTTP1

/// What a request is answered with.
struct Answer: Sendable {
    var status: HTTPResponseStatus
    var headers: HTTPHeaders
    /// Written one after the other, without being joined.
    var body: [ByteBuffer]
    /// The offense for which the client is refused, if that is limited.
    var offense: Offense?

    /// An offense that counts against a client's address.
    enum Offense: Hashable, Sendable {
        /// Showed a token or a signature that nobody made.
        case guess
        /// Asked for changes where there are none.
        case emptyList
    }

    init(_ status: HTTPResponseStatus, headers: HTTPHeaders = [:], body: [ByteBuffer] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    var contentLength: Int { self.body.reduce(0) { $0 + $1.readableBytes } }

    /// An answer with a JSON body.
    static func json(_ status: HTTPResponseStatus, _ bytes: [UInt8], headers: HTTPHeaders = [:]) -> Answer {
        var headers = headers
        headers.replaceOrAdd(name: "content-type", value: "application/json")
        headers.replaceOrAdd(name: "cache-control", value: "no-store")
        headers.replaceOrAdd(name: "x-content-type-options", value: "nosniff")
        return Answer(status, headers: headers, body: [ByteBuffer(bytes: bytes)])
    }

    /// An answer that tells a person what was wrong.
    static func failure(_ status: HTTPResponseStatus, _ message: String, headers: HTTPHeaders = [:]) -> Answer {
        let body: JSON = ["error": ["message": .string(message)]]
        return .json(status, body.serialized, headers: headers)
    }

    /// An unknown order and a wrong token look the same, so that nobody can find out which orders exist.
    ///
    /// Source: Wallet Orders §1.2a; RFC 9110 §11.6.1 wants the challenge
    static let unauthorized = Answer.failure(
        .unauthorized, "the authentication token is missing or wrong", headers: ["www-authenticate": "AppleOrder"])

    /// The same for a token that is wrong. One that is right for an order that is not there any more is no guess.
    static let wrongToken = Answer.unauthorized.counting(.guess)

    func counting(_ offense: Offense) -> Answer {
        var answer = self
        answer.offense = offense
        return answer
    }

    /// What Redis lost is being put back: nobody can say now what does not exist.
    static let restoring = Answer.unavailable("what is stored here is being restored", retryAfterSeconds: 10)

    /// Redis or Kafka is away, or the package is on its way.
    static func unavailable(_ message: String, retryAfterSeconds: Int) -> Answer {
        .failure(.serviceUnavailable, message, headers: ["retry-after": String(retryAfterSeconds)])
    }
}
