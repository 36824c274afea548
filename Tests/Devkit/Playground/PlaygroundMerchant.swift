import Model
import NIOHTTP1
import TestKit

/// The merchant of the playground: what its page may show, and its merchant sessions.
struct PlaygroundMerchant: Sendable {
    static let identifier = "merchant.com.example.waybill"
    static let displayName = "Waybill Playground"

    /// Connects to the fake gateway with the merchant's certificate.
    let http: HTTPClient

    var metadata: JSON {
        [
            "enabled": true, "merchantIdentifier": .string(Self.identifier), "displayName": .string(Self.displayName),
            "environments": ["sandbox"], "countryCode": "US", "currencyCode": "USD",
            "supportedNetworks": ["visa", "masterCard", "amex"], "merchantCapabilities": ["supports3DS"],
            "touchIcons": [], "orderTracking": true, "routes": ["basket": false, "payment": false],
            "stylesheet": "/applepay/waybill.css",
        ]
    }

    /// A merchant session from the environment that the browser names.
    ///
    /// Of the URL only the host counts, and only if it is one of Apple's: anything else could make this certificate
    /// known to others.
    /// - Parameter domain: the host of the page.
    func session(validationURL: String, domain: String) async -> FakeServer.Response {
        let environments = ApplePayGatewayFake.Environment.allCases
        let named = validationURL.split(separator: "/", omittingEmptySubsequences: false)
        guard named.count >= 3, named[0] == "https:", named[1].isEmpty,
            let environment = environments.first(where: { $0.host == named[2].lowercased() })
        else { return Self.failure(400, "validation_url_refused", "the URL is none of Apple's") }
        guard environment == .sandbox else {
            return Self.failure(403, "origin_refused", "this merchant has the sandbox environment only")
        }
        let body: JSON = [
            "merchantIdentifier": .string(Self.identifier), "displayName": .string(Self.displayName),
            "initiative": "web", "initiativeContext": .string(domain),
        ]
        do {
            let response = try await self.http.send(
                HTTPRequest(
                    method: .POST, url: "https://\(environment.host)/paymentservices/paymentSession",
                    headers: [("content-type", "application/json")], body: body.serialized))
            guard response.status == 200, (try? JSON(parsing: response.body))?.object != nil else {
                return Self.failure(502, "merchant_session_refused", "the gateway answered \(response.status)")
            }
            return FakeServer.Response(
                200, headers: [("content-type", "application/json"), ("cache-control", "no-store")],
                body: response.body)
        } catch {
            return Self.failure(503, "upstream_unavailable", "the gateway cannot be reached")
        }
    }

    /// An error in the shape of the checkout role.
    static func failure(_ status: Int, _ code: String, _ message: String) -> FakeServer.Response {
        let body: JSON = ["error": ["code": .string(code), "message": .string(message)]]
        return .json(status, body.text)
    }
}
