import Brands
import Cryptography
import HTTPServer
import Model
import NIOCore
import NIOHTTP1
import Store

/// Two routes that Wallet never calls, for clients of payment providers' services: an order as JSON or as a package,
/// and a push token for an order. Off unless they are configured.
struct CompatibilityEndpoints: Sendable {
    let package: PackageEndpoint
    let registrations: RegistrationEndpoints
    let store: OrderStore
    let index: TokenIndex
    let brands: BrandLibrary

    // MARK: The order

    /// `GET /v1/packages/{type}/{id}`: the package for a client that accepts it, else a small JSON view.
    ///
    /// Both require the right to fetch the package, and both are held for an order that is on its way.
    func order(
        _ key: OrderKey, _ request: Request, isSuspect: Bool, on eventLoop: any EventLoop,
        _ complete: @escaping PackageEndpoint.Completion
    ) {
        var fields = request.fields
        fields.authorization = Self.orderAuthorization(fields.authorization)
        guard fields[.accept]?.contains("application/vnd.apple.finance.order") != true else {
            return self.package.answer(key, request.with(fields), isSuspect: isSuspect, on: eventLoop) { result in
                complete(
                    result.map { answer in
                        var answer = answer
                        if answer.status == .ok || answer.status == .notModified {
                            answer.headers.replaceOrAdd(name: "vary", value: "Authorization, Accept")
                        }
                        return answer
                    })
            }
        }
        let condition = fields
        // The view has a validator of its own, and no date.
        fields.ifNoneMatch = []
        fields.ifModifiedSince = nil
        self.package.answer(
            key, request.with(fields), isSuspect: isSuspect,
            as: { eventLoop in eventLoop.makeFutureWithTask { try await self.view(of: key, condition) } },
            on: eventLoop, complete)
    }

    /// Reads an order as JSON; nil if it does not exist.
    private func view(
        of key: OrderKey, _ condition: Request.Fields
    ) async throws -> (token: AuthenticationToken, Answer)? {
        guard let order = try await self.store.orders([key]).first?.get(), !order.state.isRemoved else { return nil }
        let state = order.state
        guard let brand = self.brands.brands[key.orderType] else {
            return (state.token, .unavailable("the order is not available right now", retryAfterSeconds: 5))
        }
        let view = OrderView(state.orderJSON(rules: brand.rules).object ?? [:]).json.serialized
        // The brand has a part in the view, and another one changes no date of the order: the content is the validator.
        let tag = "json-\(SHA256.hex(view).prefix(32))"
        var headers: HTTPHeaders = [
            "etag": "\"\(tag)\"", "cache-control": "private, no-cache", "vary": "Authorization, Accept",
        ]
        guard !condition.knows(entityTag: tag) else { return (state.token, Answer(.notModified, headers: headers)) }
        headers.add(name: "content-type", value: "application/json")
        headers.add(name: "x-content-type-options", value: "nosniff")
        return (state.token, Answer(.ok, headers: headers, body: [ByteBuffer(bytes: view)]))
    }

    /// Converts `Bearer <token>` to `AppleOrder <token>`.
    private static func orderAuthorization(_ header: String?) -> String? {
        guard let header, header.prefix(7).lowercased() == "bearer " else { return header }
        return "AppleOrder \(header.dropFirst(7))"
    }

    // MARK: The push token

    /// `POST /v1/push`: registers a push token for the order of the presented token, as a device with its own name.
    func push(_ request: Request, on eventLoop: any EventLoop) -> EventLoopFuture<Answer> {
        var fields = request.fields
        fields.authorization = Self.orderAuthorization(fields.authorization)
        guard let token = Authorization.token(fields.authorization) else {
            return eventLoop.makeSucceededFuture(.unauthorized)
        }
        let pushToken: PushToken
        do {
            pushToken = try RegistrationEndpoints.pushToken(request.body)
        } catch {
            return eventLoop.makeSucceededFuture(.failure(.badRequest, error.message))
        }
        let members = (try? JSON(parsing: Array(request.body.readableBytesView)))?.object ?? [:]
        let named = PushTarget(members)
        let device = named.device ?? "compat-\(SHA256.hex(Array(pushToken.rawValue.utf8)).prefix(32))"
        guard let device = try? DeviceIdentifier(device) else {
            return eventLoop.makeSucceededFuture(.failure(.badRequest, "$.deviceIdentifier is not a device identifier"))
        }
        let shown = fields
        return self.order(named, of: token, on: eventLoop).flatMap { key in
            // A token of an unknown order is answered like a wrong one.
            guard let key, self.brands.serves(key.orderType) else {
                return eventLoop.makeSucceededFuture(.wrongToken)
            }
            return self.registrations.register(
                RegistrationKey(device: device, order: key), shown, body: request.body, on: eventLoop)
        }
    }

    private func order(
        _ named: PushTarget, of token: String, on eventLoop: any EventLoop
    ) -> EventLoopFuture<OrderKey?> {
        if let order = named.order { return eventLoop.makeSucceededFuture(order) }
        return eventLoop.makeFutureWithTask { try await self.index.order(of: token) }
    }

    /// The optional members of a push token's body, in either spelling.
    struct PushTarget: Hashable {
        let order: OrderKey?
        let device: String?

        init(_ members: JSONObject) {
            func text(_ camel: String, _ snake: String) -> String? {
                members[camel]?.string ?? members[snake]?.string
            }
            let type = text("orderTypeIdentifier", "order_type_identifier")
            let identifier = text("orderIdentifier", "order_identifier")
            self.order = type.flatMap { type in identifier.flatMap { try? OrderKey("\(type)/\($0)") } }
            self.device = text("deviceIdentifier", "device_identifier")
        }
    }
}

/// An order as the small JSON view of payment providers shows it. A pure mapping.
///
/// Wallet has other words for the state of an order; this view has four: `open`, `in_progress`, `fulfilled`,
/// `cancelled`.
struct OrderView: Hashable, Sendable {
    let json: JSON

    /// - Parameter order: the complete order.json.
    init(_ order: JSONObject) {
        var view: JSONObject = [
            "status": .string(Self.status(order)), "statusDescription": Self.text(order["statusDescription"]),
            "fulfillments": .array((order["fulfillments"]?.array ?? []).compactMap(\.object).map(Self.fulfillment)),
            "lineItems": .array((order["lineItems"]?.array ?? []).compactMap(\.object).map(Self.lineItem)),
        ]
        for name in ["orderIdentifier", "orderTypeIdentifier", "updatedAt"] { view[name] = order[name] }
        var merchant: JSONObject = [:]
        for name in ["merchantIdentifier", "displayName", "url"] { merchant[name] = order["merchant"]?.object?[name] }
        view["merchant"] = .object(merchant)
        if let total = order["payment"]?.object?["total"]?.object {
            view["total"] = .object(Self.price(total).merging(["label": "Total"]))
        }
        self.json = ["order": .object(view)]
    }

    private static func status(_ order: JSONObject) -> String {
        switch order["status"]?.string {
        case "cancelled": return "cancelled"
        case "completed": return "fulfilled"
        default:
            let fulfillments = (order["fulfillments"]?.array ?? []).compactMap(\.object)
            return fulfillments.allSatisfy { $0["status"]?.string == "open" } ? "open" : "in_progress"
        }
    }

    private static func fulfillment(_ fulfillment: JSONObject) -> JSON {
        let status =
            switch fulfillment["status"]?.string {
            case "open": "open"
            case "delivered", "pickedUp": "fulfilled"
            case "cancelled": "cancelled"
            default: "in_progress"
            }
        return [
            "fulfillmentIdentifier": Self.text(fulfillment["fulfillmentIdentifier"]), "status": .string(status),
            "statusDescription": Self.text(fulfillment["statusDescription"]),
            "trackingNumber": Self.text(fulfillment["trackingNumber"]),
            "trackingUrl": Self.text(fulfillment["trackingURL"]),
        ]
    }

    private static func lineItem(_ item: JSONObject) -> JSON {
        let subtitle = item["subtitle"]?.string.map { " (\($0))" } ?? ""
        var view: JSONObject = ["label": .string((item["title"]?.string ?? "") + subtitle)]
        for name in ["sku", "quantity"] { view[name] = item[name] }
        return .object(view.merging(Self.price(item["price"]?.object ?? [:])))
    }

    private static func price(_ amount: JSONObject) -> JSONObject {
        var price: JSONObject = [:]
        price["price"] = amount["amount"]
        price["currencyCode"] = amount["currency"]
        return price
    }

    private static func text(_ value: JSON?) -> JSON { .string(value?.string ?? "") }
}
