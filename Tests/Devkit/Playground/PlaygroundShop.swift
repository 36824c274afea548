import Foundation
import Kafka
import Model
import NIOHTTP1
import TestKit

/// The shop's side of the playground: mints order details, publishes changes, and receives the packager's results.
struct PlaygroundShop: Sendable {
    let sessions: PlaygroundSessions
    let producer: KafkaProducer
    let checkout: PlaygroundCheckout
    let http: HTTPClient
    let tokens: DerivedTokens
    let orderType: OrderTypeIdentifier
    let webServiceURL: String

    var rules: BrandRules { BrandRules(orderType: self.orderType, webServiceURL: self.webServiceURL) }

    func key(_ identifier: String) throws -> OrderKey {
        OrderKey(orderType: self.orderType, order: try OrderIdentifier(identifier))
    }

    /// Returns the four members that `completePayment` takes.
    func orderDetails(_ key: OrderKey) -> JSON {
        [
            "orderTypeIdentifier": .string(key.orderType.rawValue), "orderIdentifier": .string(key.order.rawValue),
            "webServiceURL": .string(self.webServiceURL), "authenticationToken": .string(self.tokens.token(for: key)),
        ]
    }

    /// Publishes a new order and gets its details, in one call of the checkout role.
    ///
    /// The document of a receipt has `"webServiceURL": null`. Source: Checkout §3.6
    func create(_ order: PlaygroundSessions.Order, of key: OrderKey, in session: String) async throws -> JSON {
        let answer = try await self.ask(
            "/v1/checkout/order-details", "Publishes the order and gets its details",
            [
                "orderTypeIdentifier": .string(key.orderType.rawValue), "orderIdentifier": .string(key.order.rawValue),
                "order": .object(OrderFile.document(order.document)),
            ], of: key, in: session)
        guard let details = answer["orderDetails"] else {
            throw ToolError(.check, "placing the order: the answer has no order details")
        }
        return details
    }

    /// Requests another push to the devices of an order, without a new version.
    func announce(_ key: OrderKey, in session: String) async throws {
        _ = try await self.ask(
            "/v1/apple_pay/order_tracking/notify", "Has the devices pushed again",
            [
                "order_type_identifier": .string(key.orderType.rawValue),
                "order_identifier": .string(key.order.rawValue),
            ], of: key, in: session)
    }

    /// Sends one request to the checkout role, with the shop's key.
    private func ask(
        _ path: String, _ title: String, _ body: JSON, of key: OrderKey, in session: String
    ) async throws -> JSONObject {
        let request = HTTPRequest(
            method: .POST, url: self.checkout.url + path,
            headers: [("authorization", "Bearer \(self.checkout.key)"), ("content-type", "application/json")],
            body: body.serialized)
        let start = ContinuousClock.now
        let response = try await self.http.send(request, within: .seconds(25))
        var entry = PlaygroundEntry(
            from: "shop", to: "checkout", title: "\(title): \(response.status)", order: key.order.rawValue)
        entry.exchange = PlaygroundEntry.Exchange(request: request, response: response, duration: .now - start)
        self.sessions.note(entry, in: session)
        let answer = try? JSON(parsing: response.body).object
        guard (200...202).contains(response.status), let answer else {
            let message = answer?["error"]?.object?["message"]?.string ?? "status \(response.status)"
            throw ToolError(.check, "\(title): \(message)")
        }
        return answer
    }

    /// Publishes the full document of an order, and waits for Kafka's acknowledgement.
    func replace(_ document: JSON, of key: OrderKey, in session: String) async throws {
        var members = OrderFile.document(document)
        // The document carries the token that was handed out, even if the secrets change before it is packaged.
        members["authenticationToken"] = .string(self.tokens.token(for: key))
        try await self.publish(.replaced, .object(members), key, session)
    }

    func remove(_ key: OrderKey, in session: String) async throws {
        try await self.publish(.removed, nil, key, session)
    }

    private func publish(
        _ type: CloudEvent.ChangeType, _ data: JSON?, _ key: OrderKey, _ session: String
    ) async throws {
        let event = CloudEvent(
            id: randomHex(bytes: 8), source: "/playground", type: type.rawValue, subject: key.description,
            time: RFC3339.format(epochSeconds: Int64(Date().timeIntervalSince1970)), data: data)
        let topic = Topics().orderChanges
        let position = try await self.producer.produce(event.message(topic: topic, mode: .structured))
        var entry = PlaygroundEntry(
            from: "shop", to: "Kafka", title: "Published \(type.rawValue)", order: key.order.rawValue)
        entry.detail = [
            "topic": .string(position.topic), "partition": .integer(Int64(position.partition)),
            "offset": .integer(position.offset), "key": .string(key.description), "id": .string(event.id),
            "acknowledged": "by all replicas that are in sync",
        ]
        self.sessions.note(entry, in: session)
    }

    /// Takes in a record of the packager about an order of a session.
    func take(_ record: KafkaRecord) {
        let subject = String(decoding: record.key ?? [], as: UTF8.self)
        guard let key = try? OrderKey(subject), key.orderType == self.orderType else { return }
        let identifier = key.order.rawValue
        let place: JSONObject = [
            "topic": .string(record.topic), "partition": .integer(Int64(record.partition)),
            "offset": .integer(record.offset),
        ]
        var entry: PlaygroundEntry
        var detail = place
        let session: String?
        if record.topic == Topics().deadLetters {
            let reason = record.headers.first { $0.name == "waybill-reason" }?.value
            let text = String(decoding: reason ?? [], as: UTF8.self)
            session = self.sessions.change(identifier) { $0.fault = text }
            entry = PlaygroundEntry(from: "packager", to: "Kafka", title: "Dead letter", order: identifier)
            detail["reason"] = .string(text)
        } else if let value = record.value, let told = try? OrderRecord.decode(value) {
            session = self.sessions.change(identifier) { order in
                guard told.version >= order.version else { return }
                order.version = told.version
                order.updatedAtEpochSeconds = told.modifiedEpochSeconds
                order.document = .object(told.document.members)
            }
            entry = PlaygroundEntry(
                from: "packager", to: "Kafka", title: "Packaged and signed version \(told.version.ordinal)",
                order: identifier)
            detail["version"] = .integer(told.version)
            detail["updatedAt"] = .string(RFC3339.format(epochSeconds: told.modifiedEpochSeconds))
        } else {
            session = self.sessions.change(identifier) { $0.isRemoved = true }
            entry = PlaygroundEntry(from: "packager", to: "Kafka", title: "Removed", order: identifier)
        }
        entry.detail = .object(detail)
        if let session { self.sessions.note(entry, in: session) }
    }
}
