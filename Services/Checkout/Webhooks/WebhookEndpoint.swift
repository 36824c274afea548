import FoundationEssentials
import HTTPServer
import Kafka
import Logging
import Model
import NIOCore
import NIOHTTP1
import Operations
import Synchronization

/// `POST /v1/checkout/sources/{name}`: writes the signed event of another system, unchanged, to its source's topic.
///
/// A valid `traceparent` of the request, and its `tracestate`, go on as headers of the record. The answer is 202 once
/// all in-sync replicas have the record. Bounded: `limit` events wait for Kafka, of which each source has a share.
/// Their bodies are half of what the producer queues, so that changes find room beside them.
final class WebhookEndpoint: Sendable {
    static let limit = 128

    private let producer: KafkaProducer
    private let logger: Logger
    private let places = Mutex(Shares<String>(limit: WebhookEndpoint.limit))

    init(producer: KafkaProducer, logger: Logger) {
        self.producer = producer
        self.logger = logger
    }

    /// - Throws: `signature_refused`, `body_too_large` for a body that the topic refuses, `unavailable` if Kafka
    ///   does not acknowledge in time, or while the source has its share.
    func answer(_ request: Request, _ webhook: Webhook) async throws(CheckoutFailure) -> Answer {
        let body = Array(request.body.readableBytesView)
        guard let signature = request.fields[webhook.scheme.field],
            webhook.isSigned(body, by: signature, nowEpochSeconds: Int64(Date().timeIntervalSince1970))
        else { throw Self.refused }
        guard self.places.withLock({ $0.take(webhook.name) }) else {
            throw CheckoutFailure.unavailable("too many events of this source are in progress", retryAfterSeconds: 1)
        }
        defer { self.places.withLock { $0.give(webhook.name) } }
        let headers = request.fields[.contentType].map { [KafkaHeader(name: "content-type", text: $0)] } ?? []
        let message = KafkaMessage(
            topic: webhook.topic, key: webhook.recordKey(of: body), value: body,
            headers: headers + request.fields.trace.headers)
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
        return Answer(.accepted)
    }

    /// The refusal of a signature, the same for a missing, a wrong and an old one.
    private static var refused: CheckoutFailure {
        var failure = CheckoutFailure(.signatureRefused, "the signature is missing, wrong or too old")
        failure.headers = ["www-authenticate": "Signature"]
        failure.isGuess = true
        return failure
    }
}
