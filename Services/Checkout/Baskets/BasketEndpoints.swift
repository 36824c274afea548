import Fetch
import HTTPServer
import Logging
import Model
import NIOHTTP1
import Synchronization

/// The endpoints that a page calls before a payment: the merchant's metadata, a basket, a price for an address.
struct BasketEndpoints: Sendable {
    let upstream: UpstreamClient
    let rates: SessionRates
    let logger: Logger
    private let advice = GivenAdvice()

    init(upstream: UpstreamClient, rates: SessionRates, logger: Logger) {
        self.upstream = upstream
        self.rates = rates
        self.logger = logger
    }

    // MARK: Metadata

    /// `GET /applepay/metadata`: the metadata of a page's merchant.
    static func metadata(_ merchant: Merchant) -> Answer {
        var answer: JSONObject = [
            "enabled": .bool(merchant.identity != nil && merchant.payment != nil),
            "merchantIdentifier": .string(merchant.merchantIdentifier), "displayName": .string(merchant.displayName),
            "environments": .array(merchant.environments.map(\.rawValue).sorted().map { .string($0) }),
            "orderTracking": .bool(merchant.capabilities.contains(.orderTracking)),
            "routes": [
                "basket": .bool(merchant.upstream != nil), "payment": .bool(merchant.upstream?.takesPayments == true),
            ],
            "stylesheet": "/applepay/waybill.css",
        ]
        if let payment = merchant.payment {
            answer = answer.merging(payment.members)
            answer["touchIcons"] = .array(
                payment.touchIcons.map { ["sizes": .string($0.sizes), "href": .string($0.href)] })
        }
        return Self.cached(answer)
    }

    /// The metadata for a page that belongs to no merchant.
    static let disabled = Self.cached(["enabled": false])

    /// Makes an answer that a browser keeps for a minute. It depends on the page (see `origin`), and so does the answer
    /// to a page of nobody: a shared cache that gave it to others would turn Apple Pay off for all of them.
    private static func cached(_ members: JSONObject) -> Answer {
        var answer = Answer.json(.ok, members.serialized)
        answer.headers.replaceOrAdd(name: "cache-control", value: "private, max-age=60")
        answer.headers.replaceOrAdd(name: "vary", value: "Origin, Referer, Host")
        return answer
    }

    /// Returns the origin of the page that sent a request. A request to the page's own host has no `Origin`.
    static func origin(_ request: Request) -> PageOrigin? {
        if let text = request.fields[.origin] { return PageOrigin(text) }
        if let referer = request.fields[.referer] {
            let scheme = referer.hasPrefix("https://") ? 8 : referer.hasPrefix("http://") ? 7 : referer.utf8.count
            return PageOrigin(
                String(referer.prefix(scheme)) + referer.dropFirst(scheme).prefix { $0 != "/" && $0 != "?" })
        }
        return request.fields[.host].flatMap { PageOrigin("https://\($0.lowercased())") }
    }

    // MARK: Basket

    /// `GET /applepay/basket/{id}`: the payment request of a basket.
    func basket(
        _ request: Request, _ merchant: Merchant, _ page: Merchant.Page, basket: String, identifier: String
    ) async throws(CheckoutFailure) -> Answer {
        guard let upstream = merchant.upstream else { throw CheckoutRoute.nothing }
        try self.rates.require(request.client, page.origin, "baskets")
        let call = UpstreamCall(
            path: "/baskets/\(basket)", origin: page.origin, request: identifier,
            basketToken: try Self.basketToken(request))
        let members = try await self.object(call, merchant, upstream)
        var payment = members["paymentRequest"]?.object ?? [:]
        // The merchant's own values replace members that the shop omits.
        for member in (merchant.payment?.members ?? [:]).members where payment[member.name] == nil {
            payment[member.name] = member.value
        }
        let violations = PaymentRequestValidator.violations(in: .object(payment), allowUnknownMembers: true)
        guard violations.isEmpty else {
            throw self.invalid("shop's payment request for a basket is invalid", violations, merchant, identifier)
        }
        let news = self.advice.news(PaymentRequestValidator.questionableMembers(in: payment), of: merchant.name)
        if !news.isEmpty {
            self.log(
                "shop's payment request has members that are passed on, but may be wrong", merchant, identifier,
                ["members": "\(news.listed(separator: "; "))"])
        }
        var answer: JSONObject = ["basketIdentifier": .string(basket), "paymentRequest": .object(payment)]
        if let version = members["version"] { answer["version"] = version }
        return .json(.ok, answer.serialized)
    }

    /// `POST /applepay/basket/{id}/validatepostalcode`: whether the shop serves an address, and the price of that.
    ///
    /// Before the payment Apple discloses no more than a region; all other members are dropped.
    func postalCode(
        _ request: Request, _ merchant: Merchant, _ page: Merchant.Page, basket: String, identifier: String
    ) async throws(CheckoutFailure) -> Answer {
        guard let upstream = merchant.upstream else { throw CheckoutRoute.nothing }
        try self.rates.require(request.client, page.origin, "prices")
        guard request.fields[.contentType].map(RequestBody.essence) == "application/json" else {
            throw CheckoutFailure(.unsupportedMediaType, "the body must be application/json")
        }
        let contact = try RequestBody.object(request.body)
        var address: JSONObject = [:]
        for name in ["countryCode", "postalCode", "locality", "administrativeArea"] {
            guard let value = contact[name] else { continue }
            guard let text = value.string, text.utf8.count <= 255 else {
                throw CheckoutFailure(.invalidParameter, "must be a string", param: name)
            }
            address[name] = .string(text)
        }
        let call = UpstreamCall(
            path: "/baskets/\(basket)/validatepostalcode", body: address.serialized, origin: page.origin,
            request: identifier, basketToken: try Self.basketToken(request))
        let members = try await self.object(call, merchant, upstream)
        let violations = PaymentRequestValidator.violations(inUpdate: members)
        let isDeliverable = members["deliverable"]?.bool
        guard violations.isEmpty, let isDeliverable else {
            let missing = Violation(path: "$.deliverable", message: "must be true or false")
            throw self.invalid(
                "shop's answer to a postal code is invalid", violations + (isDeliverable == nil ? [missing] : []),
                merchant, identifier)
        }
        var answer: JSONObject = [
            "deliverable": .bool(isDeliverable), "errors": .array(PaymentErrors.clean(members["errors"])),
        ]
        for name in ["newTotal", "newLineItems", "newShippingMethods"] { answer[name] = members[name] }
        return .json(.ok, answer.serialized)
    }

    /// Returns the shop's answer as an object.
    private func object(
        _ call: UpstreamCall, _ merchant: Merchant, _ upstream: Merchant.Upstream
    ) async throws(CheckoutFailure) -> JSONObject {
        let content: FetchedContent
        do throws(CheckoutFailure) {
            content = try await self.upstream.answer(call, of: merchant, upstream)
        } catch {
            // A query has no effect, so its outcome does not matter.
            guard error.code != .outcomeUnknown else {
                throw CheckoutFailure(.upstreamTimeout, "the shop did not answer")
            }
            throw error
        }
        switch content.status {
        case 200: break
        case 404: throw CheckoutFailure(.notFound, "there is no such basket")
        default:
            self.log("shop's answer has an unexpected status", merchant, call.request, ["status": "\(content.status)"])
            throw CheckoutFailure(.upstreamUnavailable, "the shop cannot answer right now")
        }
        guard let object = (try? JSON(parsing: content.body))?.object else {
            throw self.invalid("shop's answer is not a JSON object", [], merchant, call.request)
        }
        return object
    }

    /// Returns the basket's own secret, which is passed on unchanged.
    static func basketToken(_ request: Request) throws(CheckoutFailure) -> String? {
        guard let token = request.fields[.basketToken] else { return nil }
        guard token.utf8.count <= 1024, token.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw CheckoutFailure(.invalidParameter, "must be visible ASCII", param: "Waybill-Basket-Token")
        }
        return token
    }

    /// Logs places and reasons, and no values, since an answer may be about a person.
    private func invalid(
        _ text: String, _ violations: [Violation], _ merchant: Merchant, _ identifier: String
    ) -> CheckoutFailure {
        self.log(text, merchant, identifier, ["reasons": "\(violations.map(\.withoutValue).listed(separator: "; "))"])
        return CheckoutFailure(.upstreamInvalid, "the shop's answer is not valid")
    }

    private func log(_ text: String, _ merchant: Merchant, _ identifier: String, _ metadata: Logger.Metadata) {
        let base: Logger.Metadata = ["merchant": "\(merchant.name)", "request": "\(identifier)"]
        self.logger.warning("\(text)", metadata: base.merging(metadata) { $1 })
    }
}

/// The advice on payment requests that was logged, so that each is given once for a merchant.
///
/// Bounded: `limit` sentences for each merchant, by their names, which the operator gives.
final class GivenAdvice: Sendable {
    static let limit = 20

    private let given = Mutex<[String: Set<String>]>([:])

    /// Returns the sentences that are new for a merchant, without the indices of elements.
    func news(_ advice: [Violation], of merchant: String) -> [String] {
        if advice.isEmpty { return [] }
        return self.given.withLock { given in
            advice.map { $0.withoutValue.replacing(/\[[0-9]+\]/, with: "[]") }.filter { sentence in
                given[merchant, default: []].count < Self.limit
                    && given[merchant, default: []].insert(sentence).inserted
            }
        }
    }
}

extension Merchant.Payment {
    /// The members that payment requests get from the merchant.
    var members: JSONObject {
        [
            "countryCode": .string(self.countryCode), "currencyCode": .string(self.currencyCode),
            "supportedNetworks": .array(self.supportedNetworks.map { .string($0) }),
            "merchantCapabilities": .array(self.merchantCapabilities.map { .string($0) }),
        ]
    }
}

/// The errors that a shop may show in the sheet.
///
/// Source: Apple Pay on the Web, `ApplePayErrorCode`, `ApplePayErrorContactField`
enum PaymentErrors {
    private static let codes: Set = [
        "shippingContactInvalid", "billingContactInvalid", "addressUnserviceable", "couponCodeInvalid",
        "couponCodeExpired", "unknown",
    ]
    private static let fields: Set = [
        "phoneNumber", "emailAddress", "name", "phoneticName", "postalAddress", "addressLines", "locality",
        "subLocality", "postalCode", "administrativeArea", "subAdministrativeArea", "country", "countryCode",
    ]

    /// Returns at most ten errors. An unknown code becomes `unknown`; an unknown field is omitted.
    static func clean(_ errors: JSON?) -> [JSON] {
        (errors?.array ?? []).prefix(10).compactMap { error in
            guard let error = error.object else { return nil }
            var clean: JSONObject = [:]
            let code = error["code"]?.string ?? ""
            clean["code"] = .string(Self.codes.contains(code) ? code : "unknown")
            if let field = error["contactField"]?.string, Self.fields.contains(field) {
                clean["contactField"] = .string(field)
            }
            if let message = error["message"]?.string { clean["message"] = .string(String(message.prefix(200))) }
            return .object(clean)
        }
    }
}
