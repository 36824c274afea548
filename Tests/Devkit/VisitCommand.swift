import ArgumentParser
import Foundation
import Model
import NIOHTTP1

/// `waybill-dev visit`: the demo's second act without a browser, by the routes that the page uses.
struct VisitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "visit",
        abstract: "Acts as the page of a playground: places an order, hands it to the device, updates it.")

    @Argument(help: "The URL that waybill-dev playground printed.") var url: String

    func run() async throws {
        guard let end = self.url.range(of: "/playground", options: .backwards) else {
            throw ValidationError("\(self.url): it must end with /playground")
        }
        let http = try HTTPClient()
        let visit = PlaygroundVisit(base: String(self.url[..<end.lowerBound]), http: http)
        try await visit.run()
        await http.close()
    }
}

/// One visit to a playground.
struct PlaygroundVisit: Sendable {
    let base: String
    let http: HTTPClient
    private static let patience = Duration.seconds(15)

    func run() async throws {
        let opened = try await self.http.send(HTTPRequest(url: self.base + "/playground/session"))
        let cookie = opened.header("set-cookie")?.split(separator: ";").first.map(String.init) ?? ""
        let details = try Self.object(opened)["next"]?.array?.last
        guard let details, let order = details.object?["orderIdentifier"]?.string, !cookie.isEmpty else {
            throw ToolError(.protocol, "opening \(self.base): there is no session with order details")
        }
        self.say("opened", "\(self.base)/playground by its routes, since there is no browser")
        var start = ContinuousClock.now
        guard let service = try Self.object(opened)["service"]?.string else {
            throw ToolError(.protocol, "opening \(self.base): it names no checkout role")
        }
        _ = try await self.ask(
            .POST, service + "/applepay/validate", cookie,
            ["validationURL": "https://apple-pay-gateway-cert.apple.com/paymentservices/paymentSession"])
        self.say("validated", "the merchant has a session, made with a client certificate", since: start)
        var document = Self.document(status: "processing")
        let text = JSON.object(["orderIdentifier": .string(order), "text": .string(document.text)])
        let paid = try await self.ask(.POST, "/playground/orders", cookie, text)
        self.say("paid", "the order is published and acknowledged; nothing is charged", since: start)
        _ = try await self.ask(
            .POST, "/playground/wallet", cookie, .object(["orderDetails": paid["orderDetails"] ?? .null]))
        self.say("handed", "order details of \(order) went to the device")
        try await self.wait(for: order, "processing", cookie)
        self.say("shown", "the simulated device shows \"processing\"", since: start)

        start = .now
        document = Self.document(status: "onTheWay")
        let version = try await self.version(of: order, cookie)
        let updated = try await self.ask(
            .PUT, "/playground/orders/\(order)", cookie,
            .object(["text": .string(document.text), "version": .integer(version)]))
        self.say("updated", "version \(updated["version"]?.integer ?? 0) is signed", since: start)
        try await self.wait(for: order, "onTheWay", cookie)
        self.say("shown", "the simulated device shows \"onTheWay\"", since: start)
        Console.line("\n  The transcript of the page")
        let told = try await self.ask(.GET, "/playground/transcript?after=0", cookie)
        for entry in told["entries"]?.array ?? [] { Console.line("    \(entry.object?["title"]?.string ?? "?")") }
    }

    private func say(_ mark: String, _ text: String, since start: ContinuousClock.Instant? = nil) {
        let took = start.map { "  (\(Console.milliseconds(.now - $0)))" } ?? ""
        Console.line("  \(mark.padding(toLength: 10, withPad: " ", startingAt: 0)) \(text)\(took)")
    }

    private func ask(
        _ method: HTTPMethod, _ path: String, _ cookie: String, _ body: JSON? = nil
    ) async throws -> JSONObject {
        var request = HTTPRequest(method: method, url: path.hasPrefix("http") ? path : self.base + path)
        request.headers = [("cookie", cookie), ("origin", self.base), ("content-type", "application/json")]
        request.body = body?.serialized ?? []
        return try Self.object(try await self.http.send(request, within: .seconds(30)))
    }

    private static func object(_ response: HTTPResponse) throws -> JSONObject {
        let text = String(decoding: response.body.prefix(400), as: UTF8.self)
        guard (200...202).contains(response.status), let object = try JSON(parsing: response.body).object else {
            throw ToolError(.check, "visiting the playground: status \(response.status): \(text)")
        }
        return object
    }

    private func version(of order: String, _ cookie: String) async throws -> Int64 {
        try await self.ask(.GET, "/playground/orders/\(order)", cookie)["version"]?.integer ?? 0
    }

    /// Waits until the device shows an order with a fulfillment's status, and has registered for it.
    private func wait(for order: String, _ status: String, _ cookie: String) async throws {
        let end = ContinuousClock.now + Self.patience
        var after: Int64 = 0
        while .now < end {
            let told = try await self.ask(.GET, "/playground/transcript?after=\(after)", cookie)
            after = told["entries"]?.array?.last?.object?["number"]?.integer ?? after
            let shown = (told["device"]?.array ?? []).compactMap(\.object)
                .first { $0["orderIdentifier"]?.string == order }
            let fulfillment = shown?["fulfillments"]?.array?.first?.object
            if fulfillment?["status"]?.string == status, shown?["isRegistered"]?.bool == true { return }
        }
        throw ToolError(.timeout, "waiting for \(order) in the device: it does not show \(status)")
    }

    static func document(status: String) -> JSON {
        let now = RFC3339.format(epochSeconds: Int64(Date().timeIntervalSince1970) / 3600 * 3600)
        return [
            "orderNumber": "FP-20418", "createdAt": .string(now), "status": "open",
            "orderManagementURL": "https://shop.example.com/orders/FP-20418",
            "merchant": [
                "merchantIdentifier": "merchant.com.example.waybill", "displayName": "Fern & Pine",
                "url": "https://shop.example.com/", "logo": "logo.png",
            ],
            "payment": ["status": "paid", "total": ["amount": "149.40", "currency": "USD"]],
            "lineItems": [
                ["title": "Walnut Desk Lamp", "quantity": 1, "price": ["amount": "96.00", "currency": "USD"]]
            ],
            "fulfillments": [
                [
                    "fulfillmentType": "shipping", "fulfillmentIdentifier": "parcel-1", "status": .string(status),
                    "carrier": "Example Parcel",
                ]
            ],
        ]
    }
}
