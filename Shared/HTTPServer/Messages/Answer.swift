import Model
import NIOCore
import NIOHTTP1

/// The answer to a request.
struct Answer: Sendable {
    var status: HTTPResponseStatus
    var headers: HTTPHeaders
    /// Written one after the other, without being concatenated.
    var body: [ByteBuffer]
    /// The offense for which the client is refused, if it counts against a limit.
    var offense: Offense?

    /// An offense that counts against a client's address.
    enum Offense: Hashable, Sendable {
        /// Sent an invalid token or signature.
        case guess
        /// Asked for changes when there are none.
        case emptyList
    }

    init(_ status: HTTPResponseStatus, headers: HTTPHeaders = [:], body: [ByteBuffer] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    var contentLength: Int { self.body.reduce(0) { $0 + $1.readableBytes } }

    /// Makes an answer with a JSON body.
    static func json(_ status: HTTPResponseStatus, _ bytes: [UInt8], headers: HTTPHeaders = [:]) -> Answer {
        var headers = headers
        headers.replaceOrAdd(name: "content-type", value: "application/json")
        headers.replaceOrAdd(name: "cache-control", value: "no-store")
        headers.replaceOrAdd(name: "x-content-type-options", value: "nosniff")
        return Answer(status, headers: headers, body: [ByteBuffer(bytes: bytes)])
    }

    /// Makes an answer that explains the error to a person.
    static func failure(_ status: HTTPResponseStatus, _ message: String, headers: HTTPHeaders = [:]) -> Answer {
        let body: JSON = ["error": ["message": .string(message)]]
        return .json(status, body.serialized, headers: headers)
    }

    /// An unknown order and a wrong token look the same, so that a client cannot find out which orders exist.
    ///
    /// Source: Wallet Orders §1.2a; RFC 9110 §11.6.1 wants the challenge
    static let unauthorized = Answer.failure(
        .unauthorized, "the authentication token is missing or wrong", headers: ["www-authenticate": "AppleOrder"])

    /// The same for a wrong token. One that is right for an order that no longer exists is not a guess.
    static let wrongToken = Answer.unauthorized.counting(.guess)

    func counting(_ offense: Offense) -> Answer {
        var answer = self
        answer.offense = offense
        return answer
    }

    /// Data lost by Redis is being restored: at the moment it is unknown what does not exist.
    static let restoring = Answer.unavailable("the stored orders are being restored", retryAfterSeconds: 10)

    /// Makes the answer 429 for a client that exceeded one of the limits.
    ///
    /// Source: RFC 6585 §4
    static func tooManyRequests(_ message: String, retryAfterSeconds: Int64) -> Answer {
        .failure(.tooManyRequests, message, headers: ["retry-after": String(retryAfterSeconds)])
    }

    /// Makes the answer 503 while Redis or Kafka is away, or the package is being made.
    static func unavailable(_ message: String, retryAfterSeconds: Int) -> Answer {
        .failure(.serviceUnavailable, message, headers: ["retry-after": String(retryAfterSeconds)])
    }
}

/// A role's side of the transport: a request in, an answer out.
protocol Responder: AnyObject, Sendable {
    /// The role's rules for requests beyond those of Wallet; nil if Wallet is the only client.
    var reading: ExtendedReading? { get }

    /// Answers a request; never fails.
    ///
    /// - Parameter eventLoop: that of the connection.
    func answer(_ request: Request, on eventLoop: any EventLoop) -> EventLoopFuture<Answer>

    /// Makes the answer to input that is not a routable request: a body that is too large, malformed HTTP.
    func refusal(_ status: HTTPResponseStatus, _ message: String) -> Answer
}

/// The parts of requests that a role reads beyond those of Wallet, whose requests are small and have few fields.
struct ExtendedReading: Sendable {
    /// Returns the most bytes of a request's body, from all that precedes it; nil to have the request answered at
    /// once, as one without a body and as the last of its connection, because the answer is a refusal whatever follows.
    let bodyLimit: @Sendable (Request) -> Int?
    /// Bytes of all bodies on an HTTP/2 connection whose requests are not being processed yet.
    let bodies: Int
    /// The time from a request's first byte to its last.
    let arrivalLimit: TimeAmount
}
