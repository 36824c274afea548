import Cryptography
import Fetch
import FoundationEssentials
import Logging
import Model
import NIOHTTP1
import Operations

/// Requests merchant sessions from Apple with the merchant's client certificate.
///
/// Connections are kept, since the handshake with a client certificate takes most of the time. There is one attempt: a
/// session is for one tap, and libcurl itself tries another connection when a kept one is dead.
struct MerchantSessionClient: Sendable {
    /// The time for one session, connection included. The sheet waits for 30 seconds.
    static let timeout = Duration.seconds(10)
    /// Most bytes of an answer. A session has a few thousand.
    static let sizeLimit = 64 << 10

    let fetcher: Fetcher
    let logger: Logger

    /// Returns the bytes of a session as Apple wrote them.
    ///
    /// - Parameters:
    ///   - domain: the host in the address bar.
    ///   - request: the identifier of the request, for the log.
    func session(
        _ merchant: Merchant, _ identity: MerchantIdentity, at host: AppleHost, domain: String, request: String
    ) async throws(CheckoutFailure) -> [UInt8] {
        let body: JSON = [
            "merchantIdentifier": .string(merchant.sessionIdentifier), "displayName": .string(merchant.displayName),
            "initiative": "web", "initiativeContext": .string(domain),
        ]
        var call = FetchRequest(url: host.sessionURL) { $0 == FetchOrigin(host: host.name, port: 443) }
        call.body = (body.serialized, "application/json")
        call.accept = "application/json"
        call.identity = FetchIdentity(certificatePEM: identity.certificatePEM, keyPEM: identity.keyPEM)
        call.timeout = Self.timeout
        call.sizeLimit = Self.sizeLimit
        let answer: FetchedContent
        do throws(FetchError) {
            answer = try await self.fetcher.exchange(call)
        } catch {
            throw self.failure(error, merchant, host, request)
        }
        return try self.judge(answer, merchant, host, request)
    }

    private func judge(
        _ answer: FetchedContent, _ merchant: Merchant, _ host: AppleHost, _ request: String
    ) throws(CheckoutFailure) -> [UInt8] {
        let json = try? JSON(parsing: answer.body)
        switch answer.status {
        case 200 where json?.object != nil: return answer.body
        case 200:
            self.log(merchant, host, request, ["problem": "the answer is not a JSON object"])
            throw CheckoutFailure(.upstreamInvalid, "Apple's answer is not a merchant session")
        case 500...:
            self.log(merchant, host, request, ["status": "\(answer.status)"])
            throw CheckoutFailure(.upstreamUnavailable, "Apple makes no merchant sessions right now")
        default:
            // The message names the hash of a merchant identifier and the reason. It is for the operator only.
            let text = json?.object?["statusMessage"]?.string ?? ""
            let names = [merchant.merchantIdentifier, merchant.sessionIdentifier].map(MerchantIdentity.digest)
            let isOurs = names.contains { text.lowercased().contains($0) }
            self.log(
                merchant, host, request,
                [
                    "status": "\(answer.status)", "text": "\(ForeignText.harmless(text))",
                    "names-this-merchant": "\(isOurs)",
                ])
            throw CheckoutFailure(.merchantSessionRefused, "Apple refused the merchant session")
        }
    }

    private func failure(
        _ error: FetchError, _ merchant: Merchant, _ host: AppleHost, _ request: String
    ) -> CheckoutFailure {
        self.log(merchant, host, request, ["error": "\(error)"])
        return switch error.code {
        case .timeout: CheckoutFailure(.upstreamTimeout, "Apple did not answer in time")
        case .tooLarge, .malformed: CheckoutFailure(.upstreamInvalid, "Apple's answer is not a merchant session")
        case .busy, .closed, .cancelled:
            CheckoutFailure.unavailable("too many merchant sessions are in progress", retryAfterSeconds: 1)
        default: CheckoutFailure(.upstreamUnavailable, "Apple cannot be reached right now")
        }
    }

    private func log(_ merchant: Merchant, _ host: AppleHost, _ request: String, _ metadata: Logger.Metadata) {
        let base: Logger.Metadata = [
            "merchant": "\(merchant.name)", "host": "\(host.name)", "request": "\(request)",
        ]
        self.logger.warning("cannot get a merchant session", metadata: base.merging(metadata) { $1 })
    }
}
