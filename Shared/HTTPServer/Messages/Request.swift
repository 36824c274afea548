public import Model
public import NIOCore
public import NIOHTTP1
import Synchronization

/// A complete request, from any version of HTTP.
///
/// A class, since it passes through many calls and closures and has a dozen parts that each copy would retain.
public final class Request: Sendable {
    /// The methods that some path accepts.
    public enum Method: Hashable, Sendable {
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
    public struct Fields: Hashable, Sendable {
        public var authorization: String?
        /// One element for each field of the name.
        public var ifNoneMatch: [String] = []
        public var ifModifiedSince: String?
        /// Those that only some roles read; empty in the others.
        public var others: [RequestField] = []

        /// True if `If-None-Match` has an entity tag, given without its quotes, or the star for any.
        ///
        /// A GET compares weakly, so the mark of a weak tag is ignored. Source: RFC 9110 §13.1.2
        public func knows(entityTag: String) -> Bool {
            self.ifNoneMatch.contains { list in
                list.utf8.split(separator: UInt8(ascii: ",")).contains { candidate in
                    var tag = candidate.drop { $0.isBlank }
                    while let last = tag.last, last.isBlank { tag.removeLast() }
                    if tag.elementsEqual("*".utf8) { return true }
                    if tag.starts(with: "W/".utf8) { tag = tag.dropFirst(2) }
                    guard !entityTag.isEmpty, tag.count == entityTag.utf8.count + 2, tag.first == UInt8(ascii: "\""),
                        tag.last == UInt8(ascii: "\"")
                    else { return false }
                    return tag.dropFirst().dropLast().elementsEqual(entityTag.utf8)
                }
            }
        }
    }

    public let method: Method
    /// Path and query, possibly after scheme and authority; printable ASCII.
    public let target: String
    public let fields: Fields
    public let body: ByteBuffer
    /// The client, for limits per client.
    public let client: ClientAddress
    /// For answers that take their time; nil if the presence is unknown.
    public let presence: Presence?
    /// True if a body followed and was not read, since the role wanted none.
    public let isBodyIgnored: Bool

    init(
        method: Method, target: String, fields: Fields, body: ByteBuffer, client: ClientAddress, presence: Presence?,
        isBodyIgnored: Bool = false
    ) {
        self.method = method
        self.target = target
        self.fields = fields
        self.body = body
        self.client = client
        self.presence = presence
        self.isBodyIgnored = isBodyIgnored
    }

    /// Bytes of memory that it takes, apart from constant ones.
    var storageBytes: Int {
        let fields = self.fields
        return fields.others.reduce(self.body.storageCapacity + self.target.utf8.count) { $0 + $1.value.utf8.count }
            + fields.ifNoneMatch.reduce(0) { $0 + $1.utf8.count } + (fields.authorization?.utf8.count ?? 0)
    }

    /// Returns the request with other fields.
    public func with(_ fields: Fields) -> Request {
        Request(
            method: self.method, target: self.target, fields: fields, body: self.body, client: self.client,
            presence: self.presence, isBodyIgnored: self.isBodyIgnored)
    }

    /// Returns the request with its body.
    func with(_ body: ByteBuffer) -> Request {
        Request(
            method: self.method, target: self.target, fields: self.fields, body: body, client: self.client,
            presence: self.presence)
    }

    /// The request without its body, which is not read.
    var withoutBody: Request {
        Request(
            method: self.method, target: self.target, fields: self.fields, body: ByteBuffer(), client: self.client,
            presence: self.presence, isBodyIgnored: true)
    }
}

/// The peer of a connection: a client, or a trusted proxy that names the client.
struct Peer: Sendable {
    /// The peer as a client.
    let client: ClientAddress
    /// All trusted proxies if the peer is one of them; nil for others, whose `X-Forwarded-For` is ignored.
    let proxies: TrustedProxies?

    /// True if the peer's `X-Forwarded-For` is trusted.
    var isTrusted: Bool { self.proxies != nil }

    /// Returns the client that sent a request which arrived from this peer.
    ///
    /// - Parameter forwardedFor: the values of the request's `X-Forwarded-For` headers, in their order.
    func client(forwardedFor: [String]) -> ClientAddress {
        guard let proxies = self.proxies, !forwardedFor.isEmpty else { return self.client }
        return ForwardedFor(forwardedFor).client(trusting: proxies).map { ClientAddress($0) } ?? self.client
    }
}

extension Peer {
    /// Returns the client for whom a request from this peer counts; nil if a proxy named none, for which it would count
    /// otherwise.
    func counted(_ request: Request) -> ClientAddress? {
        self.isTrusted && request.client == self.client ? nil : request.client
    }
}

/// The presence of a client on its connection.
///
/// For answers that take their time: a client that disconnected must not hold a place that others wait for.
public final class Presence: Sendable {
    private let gone = Atomic(false)

    /// True if the client closed the connection, or its half of it.
    public var isGone: Bool { self.gone.load(ordering: .relaxed) }

    func leave() { self.gone.store(true, ordering: .relaxed) }
}

/// A header field that only some roles read.
public struct RequestField: Hashable, Sendable {
    /// The names that are kept, in lower case.
    public enum Name: String, CaseIterable, Sendable {
        case accept
        case accessControlRequestHeaders = "access-control-request-headers"
        case accessControlRequestMethod = "access-control-request-method"
        case adyenSignature = "hmacsignature"
        case contentType = "content-type"
        case cookie
        case fetchSite = "sec-fetch-site"
        case host
        case idempotencyKey = "idempotency-key"
        case key = "x-api-key"
        case origin
        case referer
        case shopifySignature = "x-shopify-hmac-sha256"
        case stripeSignature = "stripe-signature"
        case basketToken = "waybill-basket-token"
        case traceparent
        case tracestate

        init?(_ name: Span<UInt8>) {
            guard (4...30).contains(name.count) else { return nil }
            var text = ""
            for index in name.indices { text.unicodeScalars.append(Unicode.Scalar(name[index].lowercasedASCII)) }
            self.init(rawValue: text)
        }
    }

    /// The name, of those that are kept.
    public let name: Name
    /// The value without blanks around it.
    public let value: String
}

extension Request.Fields {
    /// The value of a field that occurs once; nil if it is absent or repeated.
    public subscript(name: RequestField.Name) -> String? {
        let values = self.others.filter { $0.name == name }
        return values.count == 1 ? values[0].value : nil
    }

    /// True if a field occurs more than once.
    public func isRepeated(_ name: RequestField.Name) -> Bool { self.others.count { $0.name == name } > 1 }

    /// The trace that the request belongs to; nil if it names none that is valid, or more than one.
    public var trace: TraceContext? {
        self[.traceparent].flatMap { TraceContext(traceparent: $0, tracestate: self[.tracestate]) }
    }
}

/// The limits of one request, whatever the version of HTTP.
public enum RequestLimits {
    /// Most bytes of a body. A registration has a few hundred, a log a few thousand.
    public static let body = 64 << 10
    /// The largest body that a role may allow, in bytes. The memory of one that arrives is the next power of two, and
    /// has to fit the budget of its address together with its head.
    public static let largestBody = 4 << 20
    /// Bytes of all bodies on an HTTP/2 connection whose requests are not being processed yet.
    public static let bodies = 512 << 10
    /// The longest time for a connection to stay without a request, and for a request to arrive.
    public static let idle = TimeAmount.seconds(75)
    /// The longest time for a client to read an answer. The largest package is 5 MB, and a phone may be on a train.
    static let answer = TimeAmount.minutes(5)
}

/// The reason why bytes are not a request, as the answer after which the connection ends.
public struct RequestFault: Error, Hashable {
    /// The status of the answer.
    public let status: HTTPResponseStatus
    /// For a person who reads the answer.
    public let message: String
    /// The seconds after which the same request may succeed; nil if it never will.
    public let retryAfterSeconds: Int?

    /// Makes a fault from the answer.
    public init(status: HTTPResponseStatus, message: String, retryAfterSeconds: Int? = nil) {
        self.status = status
        self.message = message
        self.retryAfterSeconds = retryAfterSeconds
    }

    /// Source: RFC 9112 §2.2: input that does not follow the grammar is answered with 400
    static func malformed(_ message: String) -> RequestFault { RequestFault(status: .badRequest, message: message) }
}
