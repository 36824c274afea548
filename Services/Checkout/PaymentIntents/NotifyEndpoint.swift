import FoundationEssentials
import HTTPServer
import Model
import NIOHTTP1

/// `POST /v1/apple_pay/order_tracking/notify`: reports a change of an order, in the dialect of payment providers.
///
/// The new state (`order`), a merge patch (`patch`) or a fulfillment in the request is published, and the push follows
/// from that change. Without them the current version is announced again, with `touch` as a new one.
struct NotifyEndpoint: Sendable {
    let publisher: ChangePublisher
    let orders: StandingOrders
    let changes: OrderChangesEndpoint
    let requests: IdempotentRequests

    private static let names = ["order_identifier", "order_type_identifier"]

    func answer(_ request: Request, _ caller: Caller) async throws(CheckoutFailure) -> Answer {
        try caller.require(.notify)
        let body = try DialectBody(request)
        let members = body.members
        try members.refuseMixture(of: Self.names)
        let type = try caller.orderType(try members.requiredText(Self.names[1]), param: Self.names[1])
        let identifier = try members.requiredText(Self.names[0])
        let order: OrderIdentifier
        do {
            order = try OrderIdentifier(identifier)
        } catch {
            throw CheckoutFailure(.orderDetailsRefused, "must be 1 to 255 of A-Z a-z 0-9 . _ ~ -", param: Self.names[0])
        }
        let key = OrderKey(orderType: type, order: order)
        let fold = try self.publisher.fold(of: type)
        let name = try IdempotencyKey.read(request.fields)
        let answered = try await self.requests.answer(
            request, caller, route: "notify", isRepeatable: true
        ) { () async throws(CheckoutFailure) -> StoredAnswer in
            let version = try await self.publish(key, members, caller, name, fold)
            var answer: JSONObject = [
                "order_identifier": .string(key.order.rawValue),
                "order_type_identifier": .string(key.orderType.rawValue),
            ]
            if let version { answer["version"] = .integer(version) }
            return StoredAnswer(status: 202, contentType: "application/json", body: answer.serialized)
        }
        return answered.answer(nil)
    }

    /// - Returns: the version that is announced again; nil for a change.
    private func publish(
        _ key: OrderKey, _ members: DialectMembers, _ caller: Caller, _ name: String?,
        _ fold: OrderFold
    ) async throws(CheckoutFailure) -> Int64? {
        let order = try members.object("order")
        let patch = try members.object("patch")
        let fulfillment = try members.object("fulfillment")
        switch (order, patch, fulfillment) {
        case (let document?, nil, nil):
            try self.publisher.check(document, of: key)
            try await self.publisher.publish(
                OrderEvent(key, .orderReplaced, document, caller: caller, idempotencyKey: name))
            return nil
        case (nil, let patch?, nil):
            try await self.publish(OrderEvent(key, .orderPatched, patch, caller: caller, idempotencyKey: name), fold)
            return nil
        case (nil, nil, let fulfillment?):
            guard fulfillment["fulfillmentIdentifier"]?.string?.isEmpty == false else {
                throw CheckoutFailure(.missingParameter, "is required", param: "fulfillment[fulfillmentIdentifier]")
            }
            try await self.publish(
                OrderEvent(key, .fulfillmentUpdated, fulfillment, caller: caller, idempotencyKey: name), fold)
            return nil
        case (nil, nil, nil):
            let isTouched = try members.flag("touch")
            guard let state = try await self.orders.state(of: key) else {
                throw CheckoutFailure(.notFound, "there is no such order")
            }
            let data: JSONObject = ["touch": .bool(isTouched)]
            try await self.publisher.publish(
                OrderEvent(key, .orderAnnounced, data, caller: caller, idempotencyKey: name))
            return isTouched ? nil : state.version
        default:
            throw CheckoutFailure(.invalidParameter, "order, patch and fulfillment exclude each other")
        }
    }

    private func publish(_ event: OrderEvent, _ fold: OrderFold) async throws(CheckoutFailure) {
        try await self.changes.review(try event.change(), fold)
        try await self.publisher.publish(event)
    }
}
