import NIOCore
import NIOHTTP1

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
