import Fetch
import HTTPServer
import Logging
import Model
import NIOCore
import NIOHTTP1

/// `POST /applepay/payment`: forwards an authorised payment to the shop, and publishes the order in its answer.
///
/// Only for merchants with `takesPayments`. Token and contacts are never logged, stored or repeated: only the member
/// names, the basket's and the transaction's identifiers in the body are read, and the body is forwarded unchanged. A
/// customer must learn whether anything can have happened, so a request that was sent is never retried, and the call
/// continues when the page disconnects.
struct PaymentEndpoint: Sendable {
    /// The time limit of the shop. The sheet waits for 30 seconds.
    static let timeout = Duration.seconds(25)

    let upstream: UpstreamClient
    let rates: SessionRates
    let publisher: ChangePublisher
    let mint: OrderDetailsMint
    let logger: Logger

    func answer(
        _ request: Request, _ merchant: Merchant, _ page: Merchant.Page, identifier: String
    ) async throws(CheckoutFailure) -> Answer {
        guard let upstream = merchant.upstream, upstream.takesPayments else { throw CheckoutRoute.nothing }
        try self.rates.require(request.client, page.origin, "payments")
        let transaction = try Self.transaction(request)
        var call = UpstreamCall(
            path: "/payments", body: Array(request.body.readableBytesView), origin: page.origin, request: identifier)
        call.idempotencyKey = transaction
        call.timeout = Self.timeout
        call.isOnce = true
        let content = try await self.upstream.answer(call, of: merchant, upstream)
        guard content.status == 200, let answer = (try? JSON(parsing: content.body))?.object else {
            self.log("shop's answer to a payment is invalid", merchant, identifier, ["status": "\(content.status)"])
            throw CheckoutFailure(.outcomeUnknown, "the outcome of the payment is unknown: look the order up")
        }
        switch answer["status"]?.string {
        case "success": return await self.success(answer, merchant, identifier)
        case "failure": return Self.failure(answer)
        default:
            self.log("shop's answer to a payment has no status", merchant, identifier, [:])
            throw CheckoutFailure(.outcomeUnknown, "the outcome of the payment is unknown: look the order up")
        }
    }

    /// Returns the payment's identifier from a body that has all required members and no others.
    private static func transaction(_ request: Request) throws(CheckoutFailure) -> String {
        guard request.fields[.contentType].map(RequestBody.essence) == "application/json" else {
            throw CheckoutFailure(.unsupportedMediaType, "the body must be application/json")
        }
        let body = try RequestBody.object(request.body)
        let known: Set = ["basketIdentifier", "basketToken", "payment"]
        guard body.members.allSatisfy({ known.contains($0.name) }) else {
            throw CheckoutFailure(.invalidParameter, "the body has members that this path does not know")
        }
        guard let basket = body["basketIdentifier"]?.string, CheckoutRoute.isSegment(basket) else {
            throw CheckoutFailure(.invalidParameter, "must name a basket", param: "basketIdentifier")
        }
        guard let token = body["payment"]?.object?["token"]?.object else {
            throw CheckoutFailure(.missingParameter, "is required", param: "payment.token")
        }
        guard let transaction = token["transactionIdentifier"]?.string, (1...255).contains(transaction.utf8.count),
            transaction.utf8.allSatisfy({ $0.isLetter || $0.isDigit || $0 == UInt8(ascii: "-") })
        else {
            throw CheckoutFailure(
                .invalidParameter, "must name the transaction", param: "payment.token.transactionIdentifier")
        }
        return transaction
    }

    /// Answers after the customer has been charged: any failure from here on costs only the order's tracking.
    private func success(_ answer: JSONObject, _ merchant: Merchant, _ identifier: String) async -> Answer {
        var result: JSONObject = ["status": "success"]
        for name in ["orderIdentifier", "guestToken"] {
            if let text = answer[name]?.string { result[name] = .string(text) }
        }
        if let url = answer["redirectURL"]?.string, Self.isAllowed(url, merchant) {
            result["redirectURL"] = .string(url)
        }
        if let details = await self.details(answer, merchant, identifier) { result["orderDetails"] = details }
        return .json(.ok, result.serialized)
    }

    private static func failure(_ answer: JSONObject) -> Answer {
        var result: JSONObject = ["status": "failure", "errors": .array(PaymentErrors.clean(answer["errors"]))]
        if let code = answer["code"]?.string, (1...64).contains(code.utf8.count),
            code.utf8.allSatisfy({ $0.isLetter || $0.isDigit || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-") })
        {
            result["code"] = .string(code)
        }
        return .json(.ok, result.serialized)
    }

    /// True for a page of one of the merchant's origins.
    private static func isAllowed(_ url: String, _ merchant: Merchant) -> Bool {
        let scheme = url.hasPrefix("https://") ? 8 : url.hasPrefix("http://") ? 7 : 0
        guard scheme > 0, url.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\\") }) else {
            return false
        }
        let origin = PageOrigin(
            String(url.prefix(scheme)) + url.dropFirst(scheme).prefix { !"/?#".contains($0) })
        return origin.map { origin in merchant.pages.contains { $0.origin == origin } } ?? false
    }

    /// Returns the order details of a successful payment; nil if there is no order to track.
    ///
    /// If there is a document, it is published first. The details are returned even while Kafka is away: the gateway
    /// holds the fetch, and the producer keeps retrying.
    private func details(_ answer: JSONObject, _ merchant: Merchant, _ identifier: String) async -> JSON? {
        let document = answer["order"]?.object
        if let given = answer["orderDetails"]?.object {
            return document == nil ? self.given(given, merchant, identifier) : nil
        }
        guard merchant.capabilities.contains(.orderTracking), let key = Self.key(answer, merchant) else { return nil }
        let details = self.mint.details(of: key)
        guard var document else { return nil }
        if document["authenticationToken"] == nil { document["authenticationToken"] = .string(details.token.rawValue) }
        do throws(CheckoutFailure) {
            try self.publisher.check(document, of: key)
        } catch {
            let places = error.details.map(\.path).listed()
            self.log(
                "shop's order is invalid", merchant, identifier, ["order": "\(key)", "places": "\(places)"])
            return nil
        }
        let event = OrderEvent(key, .orderReplaced, document, source: "waybill-checkout/\(merchant.name)/payment")
        do throws(CheckoutFailure) {
            try await self.publisher.publishPatiently(event)
        } catch {
            // It may still arrive.
            self.log("Kafka has not acknowledged the order of a payment", merchant, identifier, ["order": "\(key)"])
        }
        guard let token = document["authenticationToken"]?.string.flatMap({ try? AuthenticationToken($0) }) else {
            return nil
        }
        return self.mint.handingOut(OrderDetails(key: key, webServiceURL: details.webServiceURL, token: token)).json
    }

    private static func key(_ answer: JSONObject, _ merchant: Merchant) -> OrderKey? {
        guard let text = answer["orderIdentifier"]?.string, let order = try? OrderIdentifier(text) else { return nil }
        if let type = answer["orderTypeIdentifier"]?.string {
            return merchant.orderTypes.first { $0.rawValue == type }.map { OrderKey(orderType: $0, order: order) }
        }
        guard let only = merchant.orderTypes.first, merchant.orderTypes.count == 1 else { return nil }
        return OrderKey(orderType: only, order: order)
    }

    /// Returns details that the shop got elsewhere: of this web service, or of another one that the merchant names.
    private func given(_ given: JSONObject, _ merchant: Merchant, _ identifier: String) -> JSON? {
        let known = [self.mint.webServiceURL] + merchant.foreignWebServices
        guard given.members.count == 4, let type = given["orderTypeIdentifier"]?.string,
            let order = given["orderIdentifier"]?.string, let token = given["authenticationToken"]?.string,
            let url = given["webServiceURL"]?.string, known.contains(url),
            let key = try? OrderKey("\(type)/\(order)"), let token = try? AuthenticationToken(token)
        else {
            self.log("shop's order details are invalid", merchant, identifier, [:])
            return nil
        }
        return OrderDetails(key: key, webServiceURL: url, token: token).json
    }

    private func log(_ text: String, _ merchant: Merchant, _ identifier: String, _ metadata: Logger.Metadata) {
        let base: Logger.Metadata = ["merchant": "\(merchant.name)", "request": "\(identifier)"]
        self.logger.warning("\(text)", metadata: base.merging(metadata) { $1 })
    }
}
