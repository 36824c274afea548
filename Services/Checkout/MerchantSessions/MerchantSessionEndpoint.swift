import HTTPServer
import Logging
import NIOCore
import NIOHTTP1

/// `POST /applepay/validate`: a merchant session for a page of the merchant, and the files that prove to Apple that the
/// page's host belongs to the merchant.
///
/// Only here does a browser determine which URL a server calls with a client certificate.
struct MerchantSessionEndpoint: Sendable {
    let client: MerchantSessionClient
    let rates: SessionRates
    /// Those of all requests, whatever becomes of them.
    let attempts: SessionRates
    let logger: Logger

    /// - Parameter identifier: that of the request.
    func answer(
        _ request: Request, _ merchant: Merchant, _ page: Merchant.Page, identifier: String
    ) async throws(CheckoutFailure) -> Answer {
        guard let identity = merchant.identity else { throw CheckoutRoute.nothing }
        try self.attempts.require(request.client, page.origin, "merchant sessions")
        var body = try RequestBody(request)
        // The second spelling is that of clients of another service.
        var text = try body.text("validationURL")
        if text == nil { text = try body.text("validationUrl") }
        let domain = try body.text("domain")
        try body.refuseRest()
        let context = try Self.context(domain, page)
        let host = try self.host(text, merchant, identifier)
        // Counted here, so that requests that are refused take no session from the page's customers.
        try self.rates.require(request.client, page.origin, "merchant sessions")
        let session = try await self.client.session(
            merchant, identity, at: host, domain: context, request: identifier)
        return .json(.ok, session)
    }

    /// Returns the host of the page in the address bar: that of the origin, unless a known page embeds it.
    private static func context(_ domain: String?, _ page: Merchant.Page) throws(CheckoutFailure) -> String {
        guard let domain, domain != page.origin.host else { return page.origin.host }
        guard page.frames.contains(domain) else {
            throw CheckoutFailure(
                .invalidParameter, "must be the page's host, or one that may embed it", param: "domain")
        }
        return domain
    }

    private func host(
        _ validationURL: String?, _ merchant: Merchant, _ identifier: String
    ) throws(CheckoutFailure) -> AppleHost {
        guard let validationURL else {
            guard merchant.environments.count == 1 else {
                self.logger.warning(
                    "merchant session refused: the page names no host, and the merchant has two environments",
                    metadata: ["merchant": "\(merchant.name)", "request": "\(identifier)"])
                throw CheckoutFailure(
                    .missingParameter,
                    "is missing: pass on that of the browser's event, since this merchant has two environments",
                    param: "validationURL")
            }
            guard let host = AppleHost.standard(of: merchant) else { throw CheckoutRoute.nothing }
            return host
        }
        guard let host = AppleHost(validationURL: validationURL) else {
            throw CheckoutFailure(
                .validationURLRefused, "must be a URL of Apple's for merchant sessions", param: "validationURL")
        }
        guard host.isAllowed(for: merchant) else {
            self.logger.warning(
                "merchant session refused: its host is not in the merchant's environments and regions",
                metadata: [
                    "merchant": "\(merchant.name)", "host": "\(host.name)", "request": "\(identifier)",
                    "environment": "\(host.environment.rawValue)", "region": "\(host.region.rawValue)",
                ])
            throw CheckoutFailure(
                .capabilityRequired, "merchant sessions of this host are not made for this merchant",
                param: "validationURL")
        }
        return host
    }
}

/// The files that prove to Apple that a host belongs to a merchant.
///
/// Apple looks at the file with and without `.txt`, and at `/`. Source: Apple Pay on the Web, "Maintaining your
/// environment"
enum DomainAssociation {
    static let path = ".well-known"
    static let names: Set = [
        "apple-developer-merchantid-domain-association", "apple-developer-merchantid-domain-association.txt",
    ]

    /// Returns the host of a request, without its port.
    static func host(_ request: Request) -> String? {
        guard let field = request.fields[.host]?.lowercased() else { return nil }
        let parts = field.split(separator: ":", omittingEmptySubsequences: false)
        return (1...2).contains(parts.count) ? String(parts[0]) : nil
    }

    /// Answers with the file, byte for byte.
    static func file(_ request: Request, _ merchants: Merchants) throws(CheckoutFailure) -> Answer {
        guard let content = Self.host(request).flatMap({ merchants.page(host: $0) })?.association else {
            throw CheckoutRoute.nothing
        }
        return Self.text(.init(bytes: content))
    }

    /// Answers `/` with one line, since Apple looks there as well.
    static func root(_ request: Request, _ merchants: Merchants) throws(CheckoutFailure) -> Answer {
        guard let host = Self.host(request), merchants.serves(host: host) else { throw CheckoutRoute.nothing }
        return Self.text(.init(string: "Apple Pay for \(host)\n"))
    }

    private static func text(_ body: ByteBuffer) -> Answer {
        Answer(
            .ok,
            headers: [
                "content-type": "text/plain", "cache-control": "max-age=300", "x-content-type-options": "nosniff",
            ], body: [body])
    }
}
