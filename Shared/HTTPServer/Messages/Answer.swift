import Model
public import NIOCore
public import NIOHTTP1

/// The answer to a request.
public struct Answer: Sendable {
    /// The status; it decides whether there is a length of the body.
    public var status: HTTPResponseStatus
    /// The header fields besides date, length and connection.
    public var headers: HTTPHeaders
    /// Written one after the other, without being concatenated.
    public var body: [ByteBuffer]
    /// True for the refusal of a wrong token or signature, for roles that count these. The server ignores it.
    public var isGuess = false
    /// True for a failure to answer a client whose token or signature was found right. The server ignores it.
    public var isForOwner = false

    /// Makes an answer that counts against no limit.
    public init(_ status: HTTPResponseStatus, headers: HTTPHeaders = [:], body: [ByteBuffer] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    var contentLength: Int { self.body.reduce(0) { $0 + $1.readableBytes } }

    /// Makes an answer with a JSON body.
    public static func json(_ status: HTTPResponseStatus, _ bytes: [UInt8], headers: HTTPHeaders = [:]) -> Answer {
        var headers = headers
        headers.replaceOrAdd(name: "content-type", value: "application/json")
        headers.replaceOrAdd(name: "cache-control", value: "no-store")
        headers.replaceOrAdd(name: "x-content-type-options", value: "nosniff")
        return Answer(status, headers: headers, body: [ByteBuffer(bytes: bytes)])
    }

    /// Makes an answer that explains the error to a person.
    public static func failure(_ status: HTTPResponseStatus, _ message: String, headers: HTTPHeaders = [:]) -> Answer {
        let body: JSON = ["error": ["message": .string(message)]]
        return .json(status, body.serialized, headers: headers)
    }

    /// The same answer to a guess.
    public var asGuess: Answer {
        var answer = self
        answer.isGuess = true
        return answer
    }

    /// Makes the answer 429 for a client that exceeded one of the limits.
    ///
    /// Source: RFC 6585 §4
    public static func tooManyRequests(_ message: String, retryAfterSeconds: Int64) -> Answer {
        .failure(.tooManyRequests, message, headers: ["retry-after": String(retryAfterSeconds)])
    }

    /// Makes the answer 503 while the role cannot do what is asked for.
    public static func unavailable(_ message: String, retryAfterSeconds: Int) -> Answer {
        .failure(.serviceUnavailable, message, headers: ["retry-after": String(retryAfterSeconds)])
    }
}

/// A role's side of the transport: a request in, an answer out.
public protocol Responder: AnyObject, Sendable {
    /// The role's rules for requests beyond those of Wallet; nil if Wallet is the only client.
    var reading: ExtendedReading? { get }

    /// Answers a request; never fails.
    ///
    /// - Parameter eventLoop: that of the connection.
    func answer(_ request: Request, on eventLoop: any EventLoop) -> EventLoopFuture<Answer>

    /// Makes the answer to input that is no complete request: a body that is too large, malformed HTTP.
    ///
    /// - Parameters:
    ///   - request: the request without its body; nil if its head was not understood.
    ///   - eventLoop: that of the connection.
    func refusal(_ fault: RequestFault, of request: Request?, on eventLoop: any EventLoop) -> Answer
}

/// The parts of requests that a role reads beyond those of Wallet, whose requests are small and have few fields.
public struct ExtendedReading: Sendable {
    /// Returns the most bytes of a request's body, from all that precedes it; nil to have the request answered at
    /// once, as one without a body and as the last of its connection, because the answer is a refusal whatever follows.
    public let bodyLimit: @Sendable (Request) -> Int?
    /// Bytes of all bodies on an HTTP/2 connection whose requests are not being processed yet.
    public let bodies: Int
    /// The time from a request's first byte to its last.
    public let arrivalLimit: TimeAmount

    /// Makes the rules of a role.
    public init(bodyLimit: @escaping @Sendable (Request) -> Int?, bodies: Int, arrivalLimit: TimeAmount) {
        self.bodyLimit = bodyLimit
        self.bodies = bodies
        self.arrivalLimit = arrivalLimit
    }
}
