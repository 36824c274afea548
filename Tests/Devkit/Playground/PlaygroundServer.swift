import Foundation
import Model
import TestKit

/// The routes of the playground. All writes require the session's cookie and the page's own origin.
struct PlaygroundServer: Sendable {
    let sessions: PlaygroundSessions
    let shop: PlaygroundShop
    let page: PlaygroundPage
    let verifier: VerifierPage
    /// The identifier of the merchant, and the public origin of a page for real devices; nil without one.
    let merchant: (identifier: String, publicURL: String?)
    /// The routes of other services at a public origin; nil without one.
    let forwarding: PlaygroundForwarding?
    let makeDevice: @Sendable (_ session: String) throws -> PlaygroundDevice
    /// Runs a device until it ends.
    let run: @Sendable (PlaygroundDevice) -> Void

    static let documentLimit = 1 << 20
    static let cookie = "waybill-playground"

    func answer(_ request: FakeServer.Request) async -> FakeServer.Answer { .response(await self.respond(to: request)) }

    private func respond(to request: FakeServer.Request) async -> FakeServer.Response {
        if request.method == "GET" || request.method == "HEAD" {
            if request.path == "/" { return FakeServer.Response(302, headers: [("location", "/playground")]) }
            if request.path == "/favicon.ico" { return FakeServer.Response(204) }
            if let file = self.page.response(to: request.path) { return file }
        }
        if request.method == "GET" || request.method == "HEAD" || self.isOwnOrigin(request),
            let answer = await self.verifier.response(to: request.method, request.path, request.body)
        {
            return answer
        }
        if let forwarding, let service = forwarding.service(of: request.path) {
            return await forwarding.answer(request, from: service)
        }
        if request.method != "GET", request.method != "HEAD", !self.isOwnOrigin(request) {
            return PlaygroundMerchant.failure(403, "origin_refused", "the request must come from this page")
        }
        guard request.path.hasPrefix("/playground/") else {
            return PlaygroundMerchant.failure(404, "not_found", "there is no such path")
        }
        if request.path == "/playground/session", request.method == "GET" { return await self.session(request) }
        guard let session = Self.session(of: request), self.sessions.touch(session) else {
            return PlaygroundMerchant.failure(401, "session_missing", "load the page again: its session has ended")
        }
        let parts = request.path.split(separator: "/").map(String.init)
        guard parts.count > 1 else { return PlaygroundMerchant.failure(404, "not_found", "there is no such path") }
        switch (request.method, parts.count, parts[1]) {
        case ("POST", 2, "validate"): return self.review(request)
        case ("POST", 2, "orders"): return await self.create(request, session)
        case ("GET", 3, "orders"): return self.show(parts[2], session)
        case ("GET", 5..., "orders") where parts[3] == "files":
            return await self.file(parts[4...].joined(separator: "/"), of: parts[2], session)
        case ("PUT", 3, "orders"): return await self.update(parts[2], request, session)
        case ("POST", 4, "orders") where parts[3] == "notify": return await self.announce(parts[2], session)
        case ("POST", 4, "orders") where parts[3] == "unregister": return self.unregister(parts[2], session)
        case ("DELETE", 3, "orders"): return await self.remove(parts[2], session)
        case ("POST", 2, "wallet"): return self.handOver(request, session)
        case ("GET", 2, "transcript"): return await self.transcript(request, session)
        default: return PlaygroundMerchant.failure(404, "not_found", "there is no such path")
        }
    }

    // MARK: Checks of the request

    private func isOwnOrigin(_ request: FakeServer.Request) -> Bool {
        guard let origin = request.header("origin"), let host = request.header("host") else { return false }
        return origin == self.merchant.publicURL || origin == "http://\(host)" || origin == "https://\(host)"
    }

    static func session(of request: FakeServer.Request) -> String? {
        (request.header("cookie") ?? "").split(separator: ";").lazy
            .map { $0.trimmingCharacters(in: .whitespaces) }
            .first { $0.hasPrefix(Self.cookie + "=") }.map { String($0.dropFirst(Self.cookie.count + 1)) }
    }

    private func session(_ request: FakeServer.Request) async -> FakeServer.Response {
        var headers: [(String, String)] = [("content-type", "application/json"), ("cache-control", "no-store")]
        var name = Self.session(of: request) ?? ""
        if !self.sessions.touch(name) {
            name = randomHex(bytes: 16)
            guard let device = try? self.makeDevice(name) else {
                return PlaygroundMerchant.failure(503, "unavailable", "no session can be made now")
            }
            let ended = self.sessions.open(name, device: device)
            self.run(device)
            for identifier in ended { try? await self.shop.remove(self.shop.key(identifier), in: name) }
            let isPublic = request.header("host").map { self.merchant.publicURL == "https://\($0)" } ?? false
            let secure = isPublic ? "; Secure" : ""
            headers.append(
                ("set-cookie", "\(Self.cookie)=\(name); HttpOnly; SameSite=Strict; Path=/playground\(secure)"))
        }
        // One prepared order for each of the two blocks.
        let next: [JSON] = (0..<2).compactMap { index in
            self.sessions.nextIdentifier(of: name, at: index).flatMap { try? self.shop.key($0) }
                .map { self.shop.orderDetails($0) }
        }
        let answer: JSON = [
            "service": .string(self.page.checkout),
            "merchantIdentifier": .string(self.merchant.identifier), "next": .array(next),
            "isReal": .bool(self.merchant.publicURL != nil), "wallet": "/playground/wallet",
        ]
        return FakeServer.Response(200, headers: headers, body: answer.serialized)
    }

    // MARK: Orders

    private func review(_ request: FakeServer.Request) -> FakeServer.Response {
        guard let object = (try? JSON(parsing: request.body))?.object, let text = object["text"]?.string,
            let kind = object["kind"]?.string, text.utf8.count <= Self.documentLimit
        else { return PlaygroundMerchant.failure(400, "malformed_body", "kind and text are wanted") }
        return .json(200, self.review(kind, text).json.text)
    }

    private func review(_ kind: String, _ text: String) -> PlaygroundReview {
        if kind == "paymentRequest" { return PlaygroundReview(paymentRequest: Array(text.utf8)) }
        guard kind == "order", let key = try? self.shop.key("playground") else {
            return PlaygroundReview(object: Array(text.utf8))
        }
        return PlaygroundReview(
            order: Array(text.utf8), of: key, rules: self.shop.rules,
            nowEpochSeconds: Int64(Date().timeIntervalSince1970))
    }

    /// Returns the order document in a body, or the refusal if it may not be published.
    private func document(_ object: JSONObject?) -> (document: JSON?, refusal: FakeServer.Response?) {
        guard let text = object?["text"]?.string, text.utf8.count <= Self.documentLimit else {
            return (nil, PlaygroundMerchant.failure(400, "malformed_body", "text is missing or too long"))
        }
        let review = self.review("order", text)
        guard review.problems.isEmpty, let document = review.value else { return (nil, .json(422, review.json.text)) }
        return (document, nil)
    }

    private func create(_ request: FakeServer.Request, _ session: String) async -> FakeServer.Response {
        let object = (try? JSON(parsing: request.body))?.object
        let (document, refusal) = self.document(object)
        guard let document else { return refusal ?? .json(400, "{}") }
        guard let identifier = object?["orderIdentifier"]?.string, let key = try? self.shop.key(identifier),
            self.sessions.mayUpdate(session)
        else { return PlaygroundMerchant.failure(429, "rate_limited", "two orders a second are the limit") }
        let order = PlaygroundSessions.Order(
            identifier: identifier, isReceipt: document.object?["webServiceURL"] == .null, document: document)
        guard self.sessions.add(order, to: session) else {
            let limit = PlaygroundSessions.orderLimit
            return PlaygroundMerchant.failure(
                409, "order_refused", "the identifier is used, or the session has \(limit) orders: load the page again")
        }
        let details: JSON
        do {
            details = try await self.shop.create(order, of: key, in: session)
        } catch {
            self.sessions.drop(identifier, of: session)
            return PlaygroundMerchant.failure(503, "unavailable", "\(error)")
        }
        let answer: JSON = [
            "status": "success", "orderIdentifier": .string(identifier), "orderDetails": details,
        ]
        return .json(200, answer.text)
    }

    private func show(_ identifier: String, _ session: String) -> FakeServer.Response {
        guard let order = self.sessions.order(identifier, of: session) else { return Self.unknown }
        return .json(200, Self.json(order, document: true).text)
    }

    /// Returns a document of the package that the session's device has, such as a receipt.
    private func file(_ name: String, of identifier: String, _ session: String) async -> FakeServer.Response {
        guard let name = name.removingPercentEncoding, self.sessions.order(identifier, of: session) != nil,
            let type = PlaygroundPage.documentType(of: name),
            let content = await self.sessions.device(of: session)?.file(name, of: identifier)
        else { return PlaygroundMerchant.failure(404, "not_found", "the package has no such document") }
        return self.page.document(content, type)
    }

    private func update(
        _ identifier: String, _ request: FakeServer.Request, _ session: String
    ) async -> FakeServer.Response {
        let object = (try? JSON(parsing: request.body))?.object
        guard let order = self.sessions.order(identifier, of: session), !order.isRemoved,
            let key = try? self.shop.key(identifier)
        else { return Self.unknown }
        let (document, refusal) = self.document(object)
        guard let document else { return refusal ?? .json(400, "{}") }
        guard object?["version"]?.integer == order.version else {
            return .json(409, JSON.object(["order": Self.json(order, document: true)]).text)
        }
        if OrderFile.document(document) == OrderFile.document(order.document) {
            return .json(200, JSON.object(["unchanged": true, "version": .integer(order.version)]).text)
        }
        guard self.sessions.mayUpdate(session) else {
            return PlaygroundMerchant.failure(429, "rate_limited", "two updates a second are the limit")
        }
        self.sessions.change(identifier) { $0.fault = nil }
        do {
            try await self.shop.replace(document, of: key, in: session)
        } catch {
            return PlaygroundMerchant.failure(503, "unavailable", "Kafka does not acknowledge the change")
        }
        let end = ContinuousClock.now + .seconds(5)
        while .now < end {
            guard let now = self.sessions.order(identifier, of: session) else { break }
            if let fault = now.fault { return PlaygroundMerchant.failure(422, "order_invalid", fault) }
            if now.version > order.version { return .json(200, Self.json(now).text) }
            await self.sessions.wait(for: session, within: end - .now) { [sessions] in
                let standing = sessions.order(identifier, of: session)
                return standing?.version ?? 0 > order.version || standing?.fault != nil
            }
        }
        return .json(202, #"{"message":"still on its way"}"#)
    }

    private func announce(_ identifier: String, _ session: String) async -> FakeServer.Response {
        guard let order = self.sessions.order(identifier, of: session), !order.isRemoved,
            let key = try? self.shop.key(identifier)
        else { return Self.unknown }
        guard self.sessions.mayUpdate(session) else {
            return PlaygroundMerchant.failure(429, "rate_limited", "two updates a second are the limit")
        }
        do {
            try await self.shop.announce(key, in: session)
        } catch {
            return PlaygroundMerchant.failure(503, "unavailable", "\(error)")
        }
        return .json(202, "{}")
    }

    private func unregister(_ identifier: String, _ session: String) -> FakeServer.Response {
        guard let device = self.sessions.device(of: session), device.registrations.contains(identifier) else {
            return PlaygroundMerchant.failure(409, "not_registered", "the device is not registered for this order")
        }
        device.unregister(from: identifier)
        return .json(202, "{}")
    }

    private func remove(_ identifier: String, _ session: String) async -> FakeServer.Response {
        guard self.sessions.order(identifier, of: session) != nil, let key = try? self.shop.key(identifier) else {
            return Self.unknown
        }
        do {
            try await self.shop.remove(key, in: session)
        } catch {
            return PlaygroundMerchant.failure(503, "unavailable", "Kafka does not acknowledge the removal")
        }
        self.sessions.change(identifier) { $0.isRemoved = true }
        return .json(202, "{}")
    }

    // MARK: Events

    private func handOver(_ request: FakeServer.Request, _ session: String) -> FakeServer.Response {
        let details = (try? JSON(parsing: request.body))?.object?["orderDetails"]?.object
        guard let details, let order = details["orderIdentifier"]?.string,
            let token = details["authenticationToken"]?.string, self.sessions.order(order, of: session) != nil
        else {
            return PlaygroundMerchant.failure(400, "malformed_body", "orderDetails of an order of this page are wanted")
        }
        self.sessions.device(of: session)?.take(order: order, token: token)
        return .json(202, "{}")
    }

    private func transcript(_ request: FakeServer.Request, _ session: String) async -> FakeServer.Response {
        let after =
            request.query.split(separator: "&").first { $0.hasPrefix("after=") }
            .flatMap { Int($0.dropFirst("after=".count)) } ?? 0
        if self.sessions.entries(of: session, after: after).isEmpty {
            await self.sessions.wait(for: session, within: .seconds(20)) { [sessions] in
                !sessions.entries(of: session, after: after).isEmpty
            }
        }
        let registrations = self.sessions.device(of: session)?.registrations ?? []
        let orders = self.sessions.orders(of: session).map { order in
            var members = Self.json(order).object ?? JSONObject()
            members["devices"] = .integer(registrations.contains(order.identifier) ? 1 : 0)
            return JSON.object(members)
        }
        let answer: JSON = [
            "entries": .array(self.sessions.entries(of: session, after: after).map(\.json)), "orders": .array(orders),
            "device": await self.sessions.device(of: session)?.shown() ?? [],
        ]
        return .json(200, answer.text)
    }

    private static let unknown = PlaygroundMerchant.failure(404, "not_found", "this page has no such order")

    private static func json(_ order: PlaygroundSessions.Order, document: Bool = false) -> JSON {
        var object: JSONObject = [
            "orderIdentifier": .string(order.identifier), "version": .integer(order.version),
            "ordinal": .integer(order.version.ordinal),
            "isReceipt": .bool(order.isReceipt), "isRemoved": .bool(order.isRemoved),
            "updatedAt": .string(RFC3339.format(epochSeconds: order.updatedAtEpochSeconds)),
            "orderNumber": order.document.object?["orderNumber"] ?? .null,
            "status": order.document.object?["status"] ?? .null,
        ]
        object["fault"] = order.fault.map { .string($0) }
        if document { object["document"] = .object(OrderFile.document(order.document)) }
        return .object(object)
    }
}
