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
/// all in-sync replicas have the record. Bounded: events that wait for Kafka have `limit` places, of which each source
/// has a share. Their bodies are half of what the producer queues, so that changes find room beside them.
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
        guard request.fields[webhook.scheme.field] != nil,
            self.places.withLock({ $0.hasRoom(webhook.name) })
        else { return nil }
        return webhook.bodyLimit
    }

    /// - Throws: `signature_refused`, `body_too_large` for a body that the topic refuses, `unavailable` if Kafka
    ///   does not acknowledge in time, or while the source has its share.
    func answer(_ request: Request, _ webhook: Webhook) async throws(CheckoutFailure) -> Answer {
        guard let signature = request.fields[webhook.scheme.field] else { throw Self.refused }
        guard !request.isBodyIgnored else { throw Self.crowded }
        let body = Array(request.body.readableBytesView)
        guard
            webhook.isSigned(body, by: signature, nowEpochSeconds: Int64(Date().timeIntervalSince1970))
        else { throw Self.refused }
        let count = max(1, (body.count + Self.placeBytes - 1) / Self.placeBytes)
        guard self.places.withLock({ $0.take(webhook.name, count) }) else { throw Self.crowded }
        defer { self.places.withLock { $0.give(webhook.name, count) } }
        let headers = request.fields[.contentType].map { [KafkaHeader(name: "content-type", text: $0)] } ?? []
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
        var failure = CheckoutFailure(.signatureRefused, "the signature is missing, wrong or too old")
        failure.headers = ["www-authenticate": "Signature"]
        failure.isGuess = true
        return failure
    }
}
