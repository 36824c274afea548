import Cryptography
import Foundation
public import Model
import Synchronization

/// A shop's own service, which the checkout role calls: baskets, postal codes, payments.
///
/// It checks the signature and its time, baskets, idempotency keys, and payment tokens that are used twice.
/// Source: Checkout §2.8, §2.9
public final class ShopFake: Sendable {
    /// The faults that it simulates on request.
    public enum Fault: String, Hashable, Sendable, CaseIterable {
        /// The payment is declined.
        case decline
        /// No answer until the connection ends, after a minute; the end of the connection after the request; an answer
        /// after `slowness`; 500.
        case silent, reset, slow, broken
        /// A basket, or an order, that is not valid.
        case invalidBasket = "invalid-basket"
        case invalidOrder = "invalid-order"
    }

    /// A payment so far: the request's body and the answer to it.
    private typealias Payment = (body: [UInt8], answer: String)

    public let conduct = FakeConduct<Fault>()
    private let secret: [UInt8]
    private let baskets: [String: JSONObject]
    private let order: JSON
    private let slowness: Duration
    private let payments = Mutex<[String: Payment]>([:])
    private let listener = FakeListener()

    /// - Parameters:
    ///   - secret: the key of the checkout role's signatures.
    ///   - baskets: the identifiers of baskets with `paymentRequest`.
    ///   - answers: the answers for further baskets: `paymentRequest`, and `version` if the shop gives one.
    ///   - order: the document of every paid order.
    ///   - slowness: the delay of a `slow` answer.
    public init(
        secret: String, baskets: Set<String>, answers: [String: JSONObject] = [:], paymentRequest: JSON, order: JSON,
        slowness: Duration = .seconds(3)
    ) {
        self.secret = Array(secret.utf8)
        let common: JSONObject = ["version": 1, "paymentRequest": paymentRequest]
        self.baskets = answers.merging(baskets.map { ($0, common) }) { own, _ in own }
        self.order = order
        self.slowness = slowness
    }

    /// - Returns: the port on 127.0.0.1.
    public func start(port: Int = 0, tls: FakeServer.TLS? = nil) async throws -> Int {
        try await self.listener.start(port: port, tls: tls) { [self] request in await self.answer(request) }
    }

    public func stop() async { await self.listener.stop() }

    private func answer(_ request: FakeServer.Request) async -> FakeServer.Answer {
        let fault = self.conduct.take(request)
        let now = Int64(Date().timeIntervalSince1970)
        if let refusal = Self.signatureFault(request, secret: self.secret, nowEpochSeconds: now) {
            return .response(Self.failure(401, refusal))
        }
        switch fault {
        case .silent:
            try? await Task.sleep(for: .seconds(60))
            return .closed
        case .reset: return .closed
        case .slow: try? await Task.sleep(for: self.slowness)
        case .broken: return .response(Self.failure(500, "told to fail"))
        case nil, .decline, .invalidBasket, .invalidOrder: break
        }
        return .response(self.route(request, fault))
    }

    private func route(_ request: FakeServer.Request, _ fault: Fault?) -> FakeServer.Response {
        let parts = request.path.split(separator: "/").map(String.init)
        // The URL of the service may have a path, which comes first.
        guard let start = parts.firstIndex(where: { $0 == "baskets" || $0.hasPrefix("payment") }) else {
            return Self.failure(404, "no such path")
        }
        let rest = Array(parts[start...])
        switch (request.method, rest.count) {
        case ("GET", 2) where rest[0] == "baskets": return self.basket(rest[1], fault)
        case ("POST", 3) where rest[0] == "baskets" && rest[2] == "validatepostalcode":
            return self.postalCode(rest[1], request)
        case ("POST", 1) where rest[0].hasPrefix("payment"): return self.payment(request, fault)
        default: return Self.failure(404, "no such path")
        }
    }

    private func basket(_ identifier: String, _ fault: Fault?) -> FakeServer.Response {
        guard var answer = self.baskets[identifier] else { return Self.failure(404, "no such basket") }
        answer["basketIdentifier"] = .string(identifier)
        if fault == .invalidBasket {
            var request = answer["paymentRequest"]?.object ?? JSONObject()
            request["total"] = ["label": "", "amount": "free"]
            answer["paymentRequest"] = .object(request)
        }
        return Self.success(.object(answer))
    }

    private func postalCode(_ identifier: String, _ request: FakeServer.Request) -> FakeServer.Response {
        guard let basket = self.baskets[identifier] else { return Self.failure(404, "no such basket") }
        guard let address = (try? JSON(parsing: request.body))?.object,
            address.members.allSatisfy({
                ["countryCode", "postalCode", "locality", "administrativeArea"].contains($0.name)
            })
        else { return Self.failure(400, "the address has members that a shop must not get before the payment") }
        let total = basket["paymentRequest"]?.object?["total"] ?? .null
        let isServed = address["postalCode"]?.string != "99999"
        let errors: [JSON] =
            isServed
            ? []
            : [
                [
                    "code": "addressUnserviceable", "contactField": "postalCode",
                    "message": "We do not deliver there.",
                ]
            ]
        return Self.success(["deliverable": .bool(isServed), "errors": .array(errors), "newTotal": total])
    }

    private func payment(_ request: FakeServer.Request, _ fault: Fault?) -> FakeServer.Response {
        guard let object = (try? JSON(parsing: request.body))?.object,
            let basket = object["basketIdentifier"]?.string, self.baskets[basket] != nil
        else { return Self.failure(404, "no such basket") }
        guard let token = object["payment"]?.object?["token"]?.object?["transactionIdentifier"]?.string else {
            return Self.failure(400, "the payment has no token.transactionIdentifier")
        }
        guard request.header("idempotency-key") == token else {
            return Self.failure(400, "Idempotency-Key must be the token's transactionIdentifier")
        }
        return self.payments.withLock { payments in
            if let earlier = payments[token] {
                guard earlier.body == request.body else { return Self.failure(409, "another body with the same key") }
                return .json(200, earlier.answer)
            }
            var answer: JSONObject
            if fault == .decline {
                answer = ["status": "failure", "code": "declined", "errors": []]
            } else {
                var order = self.order.object ?? JSONObject()
                if fault == .invalidOrder { order["status"] = "teleported" }
                answer = [
                    "status": "success", "orderIdentifier": .string("shop-\(token.prefix(12))"),
                    "order": .object(order),
                ]
            }
            let text = String(decoding: JSON.object(answer).serialized, as: UTF8.self)
            payments[token] = (request.body, text)
            return .json(200, text)
        }
    }

    /// Returns the fault of `Waybill-Signature`; nil if the signature is valid.
    static func signatureFault(
        _ request: FakeServer.Request, secret: [UInt8], nowEpochSeconds now: Int64
    ) -> String? {
        guard let header = request.header("waybill-signature") else { return "Waybill-Signature is missing" }
        var parts: [String: String] = [:]
        for part in header.split(separator: ",") {
            let halves = part.split(separator: "=", maxSplits: 1)
            if halves.count == 2 { parts[halves[0].trimmingCharacters(in: .whitespaces)] = String(halves[1]) }
        }
        guard let time = parts["t"].flatMap({ Int64($0) }), let given = parts["v1"] else {
            return "Waybill-Signature must be t=…,v1=…"
        }
        guard abs(now - time) <= 300 else { return "Waybill-Signature is more than 300 s away" }
        let message = Array("\(time).\(request.method).\(request.path).".utf8) + request.body
        let expected = HMACSHA256.authenticate(message, key: secret)
            .map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        return given == expected ? nil : "Waybill-Signature does not fit method, path and body"
    }

    private static func success(_ value: JSON) -> FakeServer.Response {
        .json(200, String(decoding: value.serialized, as: UTF8.self))
    }

    private static func failure(_ status: Int, _ message: String) -> FakeServer.Response {
        let body: JSON = ["error": ["message": .string(message)]]
        return .json(status, String(decoding: body.serialized, as: UTF8.self))
    }
}
