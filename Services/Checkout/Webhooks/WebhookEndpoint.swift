import Cryptography
import FoundationEssentials
import HTTPServer
import Kafka
import Logging
import Model
import NIOCore
import NIOHTTP1
import Operations
import Store
import Synchronization

/// `POST /v1/checkout/sources/{name}`: writes the signed event of another system, unchanged, to its source's topic.
///
/// A valid `traceparent` of the request, and its `tracestate`, go on as headers of the record. The answer is 202 once
/// all in-sync replicas have the record. An event with a signature that was accepted within a day is answered alike and
/// not written again: its provider may have missed the answer, or somebody else sends it anew. Bounded: events that
/// wait for Kafka have `limit` places, of which each source has a share. Their bodies are half of what the producer
/// queues, so that changes find room beside them.
final class WebhookEndpoint: Sendable {
    static let limit = 128
    /// Bytes of a body in one place.
    static let placeBytes = 256 << 10

    private let producer: KafkaProducer
    private let accepted: RepeatedRequests
    private let breaker = Mutex(CallBreaker())
    private let metrics: CheckoutMetrics
    private let logger: Logger
    private let places = Mutex(Shares<String>(limit: WebhookEndpoint.limit))

    /// - Parameter accepted: the signatures of events that Kafka has.
    init(producer: KafkaProducer, accepted: RepeatedRequests, metrics: CheckoutMetrics, logger: Logger) {
        self.producer = producer
        self.accepted = accepted
        self.metrics = metrics
        self.logger = logger
    }

    /// Returns the most bytes of an event's body, from its head; nil to refuse it without its body.
    ///
    /// The place itself is taken once the signature was found right: strangers would hold all of them otherwise.
    func bodyLimit(_ request: Request, _ webhook: Webhook) -> Int? {
        guard webhook.scheme.signature(in: request.fields) != nil,
            self.places.withLock({ $0.hasRoom(webhook.name) })
        else { return nil }
        return webhook.bodyLimit
    }

    /// - Throws: `signature_refused`, `body_too_large` for a body that the topic refuses, `in_progress` for an event
    ///   that is being written, `unavailable` if Kafka does not acknowledge in time, or while the source has its share.
    func answer(
        _ request: Request, _ webhook: Webhook, of merchant: Merchant
    ) async throws(CheckoutFailure) -> Answer {
        guard let signature = webhook.scheme.signature(in: request.fields) else { throw Self.refused }
        guard !request.isBodyIgnored else { throw Self.crowded }
        let body = Array(request.body.readableBytesView)
        guard let code = webhook.code(of: body, by: signature, nowEpochSeconds: Int64(Date().timeIntervalSince1970))
        else { throw Self.refused }
        let count = max(1, (body.count + Self.placeBytes - 1) / Self.placeBytes)
        guard self.places.withLock({ $0.take(webhook.name, count) }) else { throw Self.crowded }
        defer { self.places.withLock { $0.give(webhook.name, count) } }
        let name = "webhook\n\(merchant.name)/\(webhook.name)\n"
        let attempt = RepeatedRequests.Attempt(name + Base64URL.encode(code), content: [])
        // Without Redis every event is taken as the first with its signature, and none is lost.
        let state = await self.begin(attempt)
        self.metrics.signed(webhook.name, state.map { $0 == .first ? .first : .repeated } ?? .unchecked)
        switch state {
        case .answered?: return Answer(.accepted)
        case .running?:
            var failure = CheckoutFailure(.inProgress, "the same event is being written")
            failure.headers = ["retry-after": "1"]
            throw failure
        default: break
        }
        do throws(CheckoutFailure) {
            try await self.write(body, of: request, webhook, merchant)
        } catch {
            if state != nil { try? await self.accepted.settle(attempt, as: .undone) }
            throw error
        }
        // Otherwise the event may be written once more.
        if state != nil { try? await self.accepted.settle(attempt, as: .answered([])) }
        return Answer(.accepted)
    }

    /// - Returns: nil while Redis does not answer; it is asked seldom then, since an event waits 2 s for it.
    private func begin(_ attempt: RepeatedRequests.Attempt) async -> RepeatedRequests.RequestState? {
        guard self.breaker.withLock({ $0.admits(at: .now()) }) else { return nil }
        let state = try? await self.accepted.begin(attempt, isRepeatable: true)
        _ = self.breaker.withLock { $0.ended(inTime: state != nil, at: .now()) }
        return state
    }

    private func write(
        _ body: [UInt8], of request: Request, _ webhook: Webhook, _ merchant: Merchant
    ) async throws(CheckoutFailure) {
        let type = request.fields[.contentType].map { [KafkaHeader(name: "content-type", text: $0)] } ?? []
        let message = KafkaMessage(
            topic: webhook.topic, key: webhook.recordKey(of: body), value: body,
            headers: type + [KafkaHeader(.merchant, text: merchant.name)] + request.fields.trace.headers)
        do throws(KafkaError) {
            _ = try await self.producer.produce(message)
        } catch {
            guard error.code != .messageTooLarge else {
                throw CheckoutFailure(.bodyTooLarge, "the event is larger than the topic of its source allows")
            }
            self.logger.warning(
                "cannot publish an event",
                metadata: ["source": "\(webhook.name)", "error": "\(error)"].traced(request.fields.trace))
            throw CheckoutFailure.unavailable("the event could not be published, send it again")
        }
    }

    private static var crowded: CheckoutFailure {
        .unavailable("too many events of this source are in progress", retryAfterSeconds: 1)
    }

    /// The refusal of a signature, the same for a missing, a wrong and an old one.
    private static var refused: CheckoutFailure {
        var failure = CheckoutFailure(.signatureRefused, "the signature or password is missing, wrong or too old")
        failure.headers = ["www-authenticate": "Signature, Basic realm=\"waybill\""]
        failure.isGuess = true
        return failure
    }
}
