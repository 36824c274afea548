import Foundation
import NIOHTTP1
import TestKit

/// Passes requests of a public page's origin on, so that one https address serves the page, the checkout role's routes
/// for pages, Apple's checks of the domain, and the routes of Wallet.
struct PlaygroundForwarding: Sendable {
    let checkout: String
    let gateway: String
    let http: HTTPClient

    /// Fields that concern one connection only. Source: RFC 9110 §7.6.1
    private static let hopByHop: Set = [
        "connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding",
        "upgrade",
    ]

    /// Returns the service that a path belongs to; nil for the playground's own.
    func service(of path: String) -> String? {
        if path.hasPrefix("/applepay/") || path.hasPrefix("/.well-known/") { return self.checkout }
        return path.hasPrefix("/v1/orders/") || path.hasPrefix("/v1/devices/") || path == "/v1/log" ? self.gateway : nil
    }

    /// Returns the service's answer; 502 if there is none.
    func answer(_ request: FakeServer.Request, from service: String) async -> FakeServer.Response {
        let query = request.query.isEmpty ? "" : "?" + request.query
        let call = HTTPRequest(
            method: HTTPMethod(rawValue: request.method), url: service + request.path + query,
            headers: request.headers.filter { !Self.hopByHop.contains($0.name) }.map { ($0.name, $0.value) },
            body: request.body)
        guard let answer = try? await self.http.send(call, within: .seconds(30)) else {
            return PlaygroundMerchant.failure(502, "unavailable", "the service behind this page does not answer")
        }
        let headers = answer.headers.filter { !Self.hopByHop.contains($0.name.lowercased()) }
        return FakeServer.Response(answer.status, headers: headers.map { ($0.name, $0.value) }, body: answer.body)
    }
}
