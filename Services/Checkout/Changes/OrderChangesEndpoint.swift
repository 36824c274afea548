import FoundationEssentials
import HTTPServer
import Model
import NIOCore
import NIOHTTP1

/// The interface for shops without Kafka: every change that the topic accepts, by HTTP.
///
/// `PUT`, `PATCH`, `DELETE /v1/checkout/orders/{type}/{id}`, `POST …/merge`, `…/announce`, `…/fulfillments/{id}` and
/// `…/returns/{id}`; with `?silent=true` no device is notified. The answer is 202 with the identifier of the event,
/// once all in-sync replicas have the change.
struct OrderChangesEndpoint: Sendable {
    let publisher: ChangePublisher
    let orders: StandingOrders
    let requests: IdempotentRequests
    /// The longest delay of a refusal, since a change that was acknowledged a moment ago may not be packaged yet.
    var patience = Duration.seconds(2)
    /// The time between two checks.
    static let step = Duration.milliseconds(100)
    /// UNIX seconds.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }

    /// - Parameter identifier: that of the fulfillment or return to change; nil for the order itself.
    func answer(
        _ request: Request, _ caller: Caller, _ key: OrderKey, _ type: ChangeType, identifier: String?
    ) async throws(CheckoutFailure) -> Answer {
        try caller.require(.orders)
        try caller.require(key.orderType)
        let fold = try self.publisher.fold(of: key.orderType)
        let data = try Self.data(of: request, type, identifier)
        let event = OrderEvent(
            key, type, data, caller: caller, idempotencyKey: try IdempotencyKey.read(request.fields),
            isSilent: try Self.isSilent(request))
        let change = try event.change()
        let answered = try await self.requests.answer(
            request, caller, route: "orders/\(key)/\(type.rawValue)/\(identifier ?? "")", isRepeatable: true
        ) { () async throws(CheckoutFailure) -> StoredAnswer in
            switch change.kind {
            case .replaced(let document): try self.publisher.check(document.members, of: key)
            case .removed: break
            case .merged, .patched, .fulfillmentUpdated, .returnUpdated, .announced:
                try await self.review(change, fold)
            }
            try await self.publisher.publish(event)
            let answer: JSON = [
                "id": .string(event.id), "source": .string(event.source), "type": .string(event.type.rawValue),
                "orderTypeIdentifier": .string(key.orderType.rawValue), "orderIdentifier": .string(key.order.rawValue),
            ]
            return StoredAnswer(status: 202, contentType: "application/json", body: answer.serialized)
        }
        return answered.answer(nil)
    }

    /// Refuses a change that would become a dead letter.
    ///
    /// The stored order may lag behind the acknowledged changes, so a refusal is checked again for a while.
    func review(_ change: OrderChange, _ fold: OrderFold) async throws(CheckoutFailure) {
        let deadline = ContinuousClock.now + self.patience
        while true {
            let state = try await self.orders.state(of: change.key)
            let review = ChangeReview(change, to: state, fold, nowEpochSeconds: self.now())
            guard let failure = review.failure else { return }
            guard ContinuousClock.now < deadline, (try? await Task.sleep(for: Self.step)) != nil else { throw failure }
        }
    }

    /// True if no device is to be notified.
    private static func isSilent(_ request: Request) throws(CheckoutFailure) -> Bool {
        switch RequestTarget(request.target).parameter("silent") {
        case "true": return true
        case nil, "false": return false
        case _?: throw CheckoutFailure(.invalidParameter, "must be true or false", param: "silent")
        }
    }

    private static func data(
        of request: Request, _ type: ChangeType, _ identifier: String?
    ) throws(CheckoutFailure) -> JSONObject? {
        guard type != .orderRemoved else {
            guard request.body.readableBytes == 0 else {
                throw CheckoutFailure(.malformedBody, "a removal must not have a body")
            }
            return nil
        }
        if type == .orderAnnounced, request.body.readableBytes == 0 { return nil }
        let media = request.fields[.contentType].map(RequestBody.essence)
        guard media == "application/json" || (media == "application/merge-patch+json" && type != .orderReplaced) else {
            throw CheckoutFailure(.unsupportedMediaType, "the body must be application/json")
        }
        var data = try RequestBody.object(request.body)
        guard let identifier else { return data }
        let name = type == .returnUpdated ? "returnIdentifier" : "fulfillmentIdentifier"
        guard data[name] == nil || data[name]?.string == identifier else {
            throw CheckoutFailure(.invalidParameter, "must be that of the path, or left out", param: name)
        }
        data[name] = .string(identifier)
        return data
    }
}

/// The verdict of the packager's own fold on a change of an order that should exist. No I/O, no clock.
enum ChangeReview: Hashable, Sendable {
    case accepted
    /// Apparently there is no order to change.
    case unknownOrder
    /// The order would become invalid; the reason names the places.
    case invalid(reason: String)

    /// - Parameter state: the current state of the order; nil if it does not exist.
    init(_ change: OrderChange, to state: OrderState?, _ fold: OrderFold, nowEpochSeconds: Int64) {
        switch fold.refusal(of: change, to: state, nowEpochSeconds: nowEpochSeconds) {
        case let fault?: self = fault.code == .unknownOrder ? .unknownOrder : .invalid(reason: fault.reason)
        case nil: self = .accepted
        }
    }

    /// The refusal; nil if the change is accepted.
    var failure: CheckoutFailure? {
        switch self {
        case .accepted: nil
        case .unknownOrder: CheckoutFailure(.notFound, "there is no such order to change: create it with PUT first")
        case .invalid(let reason): ChangePublisher.invalid([Violation(path: "$", message: reason)])
        }
    }
}
