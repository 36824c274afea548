import Foundation
import Model
import Synchronization

/// A payment provider's `confirm`, which refuses unknown parameters, so that order details that leak are noticed.
///
/// Source: Checkout §2.13
public final class ProviderFake: Sendable {
    /// The faults that it simulates on request.
    public enum Fault: String, Hashable, Sendable, CaseIterable {
        /// 402; 500; HTML instead of JSON; the end of the connection after the request; no answer until the connection
        /// ends, after a minute.
        case declined, broken, html, reset, silent
    }

    public let conduct = FakeConduct<Fault>()
    private let key: String
    private let listener = FakeListener()

    /// - Parameter key: the secret key, `sk_test_…`.
    public init(key: String) { self.key = key }

    /// - Returns: the port on 127.0.0.1.
    public func start(port: Int = 0, tls: FakeServer.TLS? = nil) async throws -> Int {
        try await self.listener.start(port: port, tls: tls) { [self] request in await self.answer(request) }
    }

    public func stop() async { await self.listener.stop() }

    private func answer(_ request: FakeServer.Request) async -> FakeServer.Answer {
        let fault = self.conduct.take(request)
        switch fault {
        case .broken: return .response(Self.failure(500, "api_error", "internal", nil))
        case .html:
            return .response(
                FakeServer.Response(200, headers: [("content-type", "text/html")], body: Array("<p>paid</p>".utf8)))
        case .reset: return .closed
        case .silent:
            try? await Task.sleep(for: .seconds(60))
            return .closed
        case nil, .declined: return .response(self.confirm(request, isDeclined: fault == .declined))
        }
    }

    static let members: Set<String> = [
        "payment_method", "payment_method_data", "return_url", "receipt_email", "metadata", "shipping",
    ]

    func confirm(_ request: FakeServer.Request, isDeclined: Bool) -> FakeServer.Response {
        let basic = "Basic " + Data("\(self.key):".utf8).base64EncodedString()
        let keys = [request.header("authorization"), request.header("x-api-key").map { "Bearer " + $0 }]
        guard keys.contains(where: { $0 == basic || $0 == "Bearer \(self.key)" }) else {
            return Self.failure(401, "authentication_error", "key_refused", nil)
        }
        let parts = request.path.split(separator: "/")
        guard request.method == "POST", parts.count >= 3, parts.last == "confirm",
            parts[parts.count - 3] == "payment_intents"
        else { return Self.failure(404, "validation_error", "not_found", nil) }
        guard let names = Self.names(in: request) else {
            return Self.failure(400, "validation_error", "malformed_body", nil)
        }
        if let unknown = names.first(where: { !Self.members.contains($0) }) {
            return Self.failure(400, "validation_error", "unknown_parameter", unknown)
        }
        guard names.contains("payment_method") || names.contains("payment_method_data") else {
            return Self.failure(400, "validation_error", "missing_parameter", "payment_method")
        }
        guard !isDeclined else { return Self.failure(402, "payment_error", "card_declined", nil) }
        let answer: JSON = [
            "id": .string(String(parts[parts.count - 2])), "object": "payment_intent", "status": "succeeded",
        ]
        return .json(200, String(decoding: answer.serialized, as: UTF8.self))
    }

    /// Returns the names at the top level of a JSON or form-encoded body; nil if it is neither.
    static func names(in request: FakeServer.Request) -> Set<String>? {
        let type = request.header("content-type") ?? ""
        if type.hasPrefix("application/json") {
            return (try? JSON(parsing: request.body))?.object.map { Set($0.members.map(\.name)) }
        }
        guard type.hasPrefix("application/x-www-form-urlencoded") else { return nil }
        return Set(
            String(decoding: request.body, as: UTF8.self).split(separator: "&").map { pair in
                let name = pair.prefix { $0 != "=" }
                let decoded = String(name).removingPercentEncoding ?? String(name)
                return String(decoded.prefix { $0 != "[" })
            })
    }

    private static func failure(_ status: Int, _ type: String, _ code: String, _ parameter: String?)
        -> FakeServer.Response
    {
        var error: JSONObject = ["type": .string(type), "code": .string(code), "message": .string(code)]
        if let parameter { error["param"] = .string(parameter) }
        return .json(status, String(decoding: JSON.object(["error": .object(error)]).serialized, as: UTF8.self))
    }
}
