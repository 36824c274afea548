import Cryptography
import FoundationEssentials
import HTTPServer
import Model
import NIOHTTP1
import Tokens

/// Order details, grants and links, for servers with a key and for pages with a grant.
struct OrderDetailsEndpoints: Sendable {
    let mint: OrderDetailsMint
    let publisher: ChangePublisher
    let orders: StandingOrders
    let requests: IdempotentRequests
    /// The longest time that a link in a mail may be valid for; 0: there are none.
    let mailLinkSeconds: Int64
    /// UNIX seconds.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }

    /// `POST /v1/checkout/order-details`: the details of an order. If its document is given, it is published first.
    ///
    /// The document carries the token that is handed out, so that a change of secrets between here and the packager
    /// does no harm. Nothing is handed out before Kafka has the order.
    func mint(_ request: Request, _ caller: Caller) async throws(CheckoutFailure) -> Answer {
        try caller.require(.details)
        var body = try RequestBody(request)
        let type = try self.orderType(&body, caller)
        let identifier = try body.text("orderIdentifier")
        let document = try body.object("order")
        try body.refuseRest()
        // An unknown type is refused before an identifier is generated.
        _ = try self.publisher.fold(of: type)
        let name = try IdempotencyKey.read(request.fields)
        let order = identifier ?? name.map { Self.identifier(of: $0, caller) } ?? Self.randomIdentifier()
        let key = OrderKey(orderType: type, order: try Self.order(order))
        // The validator reports it if it is not a token.
        let token = (document?["authenticationToken"]?.string).flatMap { try? AuthenticationToken($0) }
        let minted = self.mint.details(of: key, token: token)
        let event: OrderEvent? =
            if let document { try self.event(key, document, minted, caller, name) } else { nil }
        let kept = try await self.requests.answer(
            request, caller, route: "order-details", isRepeatable: true
        ) { () async throws(CheckoutFailure) -> StoredAnswer in
            if let event { try await self.publisher.publish(event) }
            // The token is made again.
            return StoredAnswer(status: 200, contentType: "text/plain", body: Array(key.order.rawValue.utf8))
        }
        guard let order = try? OrderIdentifier(String(decoding: kept.body, as: UTF8.self)) else {
            throw CheckoutFailure(.internal, "the stored answer cannot be read")
        }
        let details = self.mint.details(of: OrderKey(orderType: type, order: order), token: token)
        return self.answer(self.mint.handingOut(details), isPublished: event != nil)
    }

    /// Makes the change that creates an order, with the token of its details unless the document has one.
    private func event(
        _ key: OrderKey, _ document: JSONObject, _ details: OrderDetails, _ caller: Caller,
        _ name: String?
    ) throws(CheckoutFailure) -> OrderEvent {
        var document = document
        if document["authenticationToken"] == nil {
            document["authenticationToken"] = .string(details.token.rawValue)
        }
        try self.publisher.check(document, of: key)
        return OrderEvent(key, .orderReplaced, document, caller: caller, idempotencyKey: name)
    }

    /// `POST /v1/checkout/grants`: a permission for one page.
    func grant(_ request: Request, _ caller: Caller) throws(CheckoutFailure) -> Answer {
        try caller.require(.details)
        var body = try RequestBody(request)
        let key = try self.key(&body, caller)
        let text = try body.requiredText("origin")
        let seconds = try body.integer("seconds", default: 600, in: 1...DetailsGrant.longestSeconds)
        try body.refuseRest()
        guard let origin = PageOrigin(text), caller.merchant.pages.contains(where: { $0.origin == origin }) else {
            throw CheckoutFailure(.invalidParameter, "must be one of the merchant's origins", param: "origin")
        }
        let grant = DetailsGrant(key: key, expiresEpochSeconds: self.now() + seconds, origin: origin.description)
        let answer: JSON = [
            "grant": .string(grant.text(self.mint.tokens.secrets(for: key.orderType))),
            "expires": .integer(grant.expiresEpochSeconds),
        ]
        return .json(.ok, answer.serialized)
    }

    /// The place of a link.
    private enum Purpose: String { case button, mail }

    /// `POST /v1/checkout/links`: a link to the package, for a Track button or for a mail, and the order as structured
    /// data for a mail.
    func link(_ request: Request, _ caller: Caller) async throws(CheckoutFailure) -> Answer {
        try caller.require(.links)
        var body = try RequestBody(request)
        let key = try self.key(&body, caller)
        let name = try body.text("purpose") ?? Purpose.button.rawValue
        guard let purpose = Purpose(rawValue: name) else {
            throw CheckoutFailure(.invalidParameter, "must be \"button\" or \"mail\"", param: "purpose")
        }
        guard purpose == .mail else { return try self.packageLink(to: key, &body) }
        guard self.mailLinkSeconds > 0 else {
            throw CheckoutFailure(.invalidParameter, "there are no links for mails here", param: "purpose")
        }
        let seconds = try body.integer("seconds", default: self.mailLinkSeconds, in: 1...self.mailLinkSeconds)
        let language = try body.text("language")
        if let language, !Self.isLanguage(language) {
            throw CheckoutFailure(.invalidParameter, "must be a language tag such as de or pt-BR", param: "language")
        }
        let document = try body.object("order")
        try body.refuseRest()
        let token = try await self.orders.token(of: key)
        let link = MailLink(key: key, expiresEpochSeconds: self.now() + seconds)
        let signature = link.signature(token ?? self.mint.details(of: key).token)
        let url =
            "\(self.mint.webServiceURL)/v1/orders/\(key)/mail?expires=\(link.expiresEpochSeconds)"
            + "&signature=\(signature)" + (language.map { "&language=\($0)" } ?? "")
        var answer: JSONObject = ["url": .string(url), "expires": .integer(link.expiresEpochSeconds)]
        if let document {
            let merchant = try self.publisher.fold(of: key.orderType).merchant
            answer["structuredData"] = OrderMarkup(document, merchant: merchant).json
        }
        return .json(.ok, JSON.object(answer).serialized)
    }

    private static func isLanguage(_ text: String) -> Bool {
        (2...35).contains(text.utf8.count)
            && text.utf8.allSatisfy { $0.isLetter || $0.isDigit || $0 == UInt8(ascii: "-") }
    }

    private func packageLink(to key: OrderKey, _ body: inout RequestBody) throws(CheckoutFailure) -> Answer {
        let seconds = try body.integer("seconds", default: 600, in: 1...PackageLink.longestSeconds)
        try body.refuseRest()
        let link = PackageLink(key: key, expiresEpochSeconds: self.now() + seconds)
        let url =
            "\(self.mint.webServiceURL)/v1/orders/\(key)/package?expires=\(link.expiresEpochSeconds)"
            + "&signature=\(link.signature(self.mint.tokens.secrets(for: key.orderType)))"
        let answer: JSON = ["url": .string(url), "expires": .integer(link.expiresEpochSeconds)]
        return .json(.ok, answer.serialized)
    }

    /// `POST /applepay/order-details`: the details that a grant permits, for a page of its origin.
    func redeem(_ request: Request, _ origin: PageOrigin, _ merchant: Merchant) throws(CheckoutFailure) -> Answer {
        var body = try RequestBody(request)
        let text = try body.requiredText("grant")
        try body.refuseRest()
        let grant = DetailsGrant(
            verifying: text, origin: origin.description, tokens: self.mint.tokens, nowEpochSeconds: self.now())
        guard let grant, merchant.orderTypes.contains(grant.key.orderType) else {
            var failure = CheckoutFailure(.grantRefused, "the grant is not valid for this page")
            failure.isGuess = true
            throw failure
        }
        let answer: JSON = ["orderDetails": self.mint.handingOut(self.mint.details(of: grant.key)).json]
        return .json(.ok, answer.serialized)
    }

    private func answer(_ details: OrderDetails, isPublished: Bool) -> Answer {
        let answer: JSON = ["orderDetails": details.json, "published": .bool(isPublished)]
        return .json(.ok, answer.serialized)
    }

    private func key(_ body: inout RequestBody, _ caller: Caller) throws(CheckoutFailure) -> OrderKey {
        let type = try self.orderType(&body, caller)
        let identifier = try body.requiredText("orderIdentifier")
        _ = try self.publisher.fold(of: type)
        return OrderKey(orderType: type, order: try Self.order(identifier))
    }

    /// Takes the order type from a body; the key's type if it is missing and the key has only one.
    private func orderType(
        _ body: inout RequestBody, _ caller: Caller
    ) throws(CheckoutFailure) -> OrderTypeIdentifier {
        guard let text = try body.text("orderTypeIdentifier") else {
            guard let only = caller.key.orderTypes.first, caller.key.orderTypes.count == 1 else {
                throw CheckoutFailure(
                    .missingParameter, "is required, since the key is for several types",
                    param: "orderTypeIdentifier")
            }
            return only
        }
        return try caller.orderType(text, param: "orderTypeIdentifier")
    }

    private static func order(_ text: String) throws(CheckoutFailure) -> OrderIdentifier {
        do {
            return try OrderIdentifier(text)
        } catch {
            throw CheckoutFailure(
                .orderDetailsRefused, "must be 1 to 255 of A-Z a-z 0-9 . _ ~ -", param: "orderIdentifier")
        }
    }

    /// Derives an identifier of 128 bits in 22 characters from the name of a request: its repetition names the same
    /// order, even if nothing is known of the first.
    private static func identifier(of name: String, _ caller: Caller) -> String {
        let purpose = "identifier\n\(caller.merchant.name)/\(caller.key.name)\n\(name)"
        return Base64URL.encode(Array(caller.key.derived(purpose).prefix(16)))
    }

    /// Makes an identifier of 128 random bits in 22 characters.
    private static func randomIdentifier() -> String {
        var generator = SystemRandomNumberGenerator()
        return Base64URL.encode((0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }
}

extension Caller {
    /// Parses an order type that a request names.
    ///
    /// - Throws: `not_found` for any other text, `scope_missing` for a type that the key does not cover.
    func orderType(_ text: String, param: String) throws(CheckoutFailure) -> OrderTypeIdentifier {
        let type: OrderTypeIdentifier
        do {
            type = try OrderTypeIdentifier(text)
        } catch {
            throw CheckoutFailure(.notFound, "unknown order type", param: param)
        }
        try self.require(type)
        return type
    }
}
