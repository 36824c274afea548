import Cryptography
import Fetch
import FoundationEssentials
import HTTPServer
import Logging
import Model
import NIOCore
import NIOHTTP1
import Store
import Tokens

/// `POST /v1/payment_intents/{id}/confirm`: a payment's confirmation in the dialect of payment providers, with order
/// details.
///
/// `record` checks the details and returns them; no customer is charged here, and the answer says so. `forward` checks
/// them, and forwards the request without them to the payment provider; they are added to a successful answer.
struct ConfirmEndpoint: Sendable {
    /// The time limit of the provider. The sheet waits for 30 seconds.
    static let timeout = Duration.seconds(25)
    /// Most bytes of the provider's answer.
    static let sizeLimit = 256 << 10

    let mint: OrderDetailsMint
    let publisher: ChangePublisher
    let orders: StandingOrders
    let index: TokenIndex
    let requests: IdempotentRequests
    let calls: CallCapacity
    let logger: Logger

    /// - Parameter payment: the payment's identifier.
    func answer(
        _ request: Request, _ caller: Caller, payment: String, identifier: String
    ) async throws(CheckoutFailure) -> Answer {
        try caller.require(.confirm)
        let body = try DialectBody(request)
        var details: OrderDetails?
        if let object = try body.members.object(DetailsRequest.name) {
            details = try await self.details(
                try DetailsRequest(object, caller, webServiceURL: self.mint.webServiceURL))
        }
        let answered = try await self.requests.answer(
            request, caller, route: "confirm/\(payment)", isRepeatable: false
        ) { () async throws(CheckoutFailure) -> StoredAnswer in
            switch caller.merchant.confirmation {
            case .record:
                let answer: JSON = ["id": .string(payment), "object": "payment_intent", "forwarded": false]
                return StoredAnswer(status: 200, contentType: "application/json", body: answer.serialized)
            case .forward(let provider):
                return try await self.forward(request, caller, body, to: provider, payment, identifier)
            }
        }
        if let details {
            // Only the push route of the compatible dialect asks for it, so a failure of Redis fails no payment.
            try? await self.index.remember(details.token, of: details.key)
        }
        return answered.answer(details.map(self.mint.handingOut))
    }

    /// Resolves the order details that a caller requests.
    ///
    /// A token must be the derived one or that of the stored order: a fetch with any other is always refused.
    private func details(_ request: DetailsRequest) async throws(CheckoutFailure) -> OrderDetails {
        _ = try self.publisher.fold(of: request.key.orderType)
        if let url = request.foreignWebService, let token = request.token {
            return OrderDetails(key: request.key, webServiceURL: url, token: token)
        }
        let derived = self.mint.details(of: request.key)
        guard let token = request.token, !self.mint.tokens.isToken(token.rawValue, of: request.key) else {
            return derived
        }
        guard let state = try await self.orders.state(of: request.key) else {
            throw DetailsRequest.refused(
                "the order is not there yet, so its token cannot be known: leave it out, or publish the order with it "
                    + "first", "authentication_token")
        }
        guard constantTimeEqual(Array(state.token.rawValue.utf8), Array(token.rawValue.utf8)) else {
            throw DetailsRequest.refused("is not the token of this order: leave it out", "authentication_token")
        }
        return self.mint.details(of: request.key, token: token)
    }

    private func forward(
        _ request: Request, _ caller: Caller, _ body: DialectBody, to provider: Merchant.Confirmation.Provider,
        _ payment: String, _ identifier: String
    ) async throws(CheckoutFailure) -> StoredAnswer {
        var call = FetchRequest(url: provider.url.replacing("{id}", with: payment)) { _ in true }
        call.body = (body.bytes(without: DetailsRequest.name), body.mediaType)
        call.accept = "application/json"
        call.headers = [("Authorization", provider.authorization), ("X-Request-Id", identifier)]
        if let key = request.fields[.idempotencyKey] { call.headers.append(("Idempotency-Key", key)) }
        call.addresses = Upstream.policy(provider.addresses)
        call.rootsPEM = provider.rootsPEM
        call.isAlone = true
        call.timeout = Self.timeout
        call.sizeLimit = Self.sizeLimit
        do throws(CheckoutFailure) {
            let content = try await self.calls.exchange(
                call, .money, of: caller.merchant.name, at: provider.url)
            return StoredAnswer(
                status: content.status, contentType: content.contentType ?? "application/octet-stream",
                body: content.body)
        } catch {
            self.logger.warning(
                "payment provider does not respond",
                metadata: ["error": "\(error.message)", "request": "\(identifier)"])
            throw error
        }
    }
}
