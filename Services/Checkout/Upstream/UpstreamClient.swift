import Cryptography
import Fetch
import FoundationEssentials
import Model

/// A call to a shop's own service.
struct UpstreamCall {
    /// Below the service's URL: `/baskets/1234`.
    let path: String
    /// The body of a POST; nil for a GET.
    var body: [UInt8]?
    /// The page that caused it.
    let origin: PageOrigin
    /// The identifier of the request.
    let request: String
    var idempotencyKey: String?
    var basketToken: String?
    var timeout = Duration.seconds(10)
    /// True for a call that must not be sent twice.
    var isOnce = false
}

/// Calls the services of shops, with a signature by which they can authenticate the caller.
///
/// `Waybill-Signature: t=<UNIX seconds>,v1=<hex HMAC-SHA256(secret, t + "." + method + "." + path + "." + body)>`,
/// where the path is that of the URL. No call is retried, and no redirect is followed.
struct UpstreamClient: Sendable {
    /// Most bytes of an answer.
    static let sizeLimit = 256 << 10

    let calls: CallCapacity
    /// UNIX seconds.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }

    /// - Throws: as `Upstream.failure` judges it.
    func answer(
        _ call: UpstreamCall, of merchant: Merchant, _ upstream: Merchant.Upstream
    ) async throws(CheckoutFailure) -> FetchedContent {
        let method = call.body == nil ? "GET" : "POST"
        let url = upstream.url + call.path
        // In an https URL with a host, everything after the host is the path.
        let path = String(url.dropFirst("https://".count).drop { $0 != "/" })
        var request = FetchRequest(url: url) { _ in true }
        request.body = call.body.map { ($0, "application/json") }
        request.accept = "application/json"
        request.headers = [
            ("Waybill-Signature", Self.signature(upstream.secret, self.now(), method, path, call.body ?? [])),
            ("Waybill-Merchant", merchant.name), ("Waybill-Origin", call.origin.description),
            ("X-Request-Id", call.request),
        ]
        if let key = call.idempotencyKey { request.headers.append(("Idempotency-Key", key)) }
        if let token = call.basketToken { request.headers.append(("Waybill-Basket-Token", token)) }
        request.addresses = Upstream.policy(upstream.addresses)
        request.rootsPEM = upstream.rootsPEM
        request.isAlone = call.isOnce
        request.timeout = call.timeout
        request.sizeLimit = Self.sizeLimit
        return try await self.calls.exchange(
            request, call.isOnce ? .money : .lookup, of: merchant.name, at: upstream.url)
    }

    static func signature(
        _ secret: [UInt8], _ seconds: Int64, _ method: String, _ path: String, _ body: [UInt8]
    ) -> String {
        let message = Array("\(seconds).\(method).\(path).".utf8) + body
        let digits = Hexadecimal.digits(HMACSHA256.authenticate(message, key: secret))
        return "t=\(seconds),v1=\(String(decoding: digits, as: UTF8.self))"
    }
}

/// The common parts of calls to shops' and payment providers' services.
enum Upstream {
    /// Allows the public internet, and the addresses that a merchant lists.
    static func policy(_ addresses: [String]) -> AddressPolicy {
        AddressPolicy(exceptions: Set(addresses.compactMap { Fetch.IPAddress($0) }))
    }

    /// Returns the refusal for a call without an answer.
    ///
    /// With money involved, the caller must know whether anything can have happened: a call of which nothing was sent
    /// certainly had no effect; any other may have had one.
    static func failure(_ error: FetchError) -> CheckoutFailure {
        if error.mayHaveBeenSent {
            return CheckoutFailure(.outcomeUnknown, "the service did not answer: the outcome is unknown")
        }
        return CheckoutFailure(.upstreamUnavailable, "the service cannot be reached: nothing was done")
    }
}
