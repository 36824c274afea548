import Brands
import FoundationEssentials
import Kafka
import Logging
import Model
import NIOCore
import Operations
import Tokens

/// Checks changes of orders as the packager will, and publishes them to Kafka.
///
/// A change is answered once all in-sync replicas have its record. Bounded: `KafkaCircuitBreaker` lets a few thousand
/// changes wait, each for at most the producer's delivery limit.
final class ChangePublisher: Sendable {
    /// The longest wait for the acknowledgement of the order of a payment.
    static let patience = TimeAmount.seconds(3)

    private let producer: KafkaProducer
    /// The producer that keeps retrying after its caller has stopped waiting.
    private let patientProducer: KafkaProducer
    private let group: any EventLoopGroup
    private let topics: Topics
    private let brands: BrandLibrary
    private let tokens: TokenAuthority
    private let metrics: CheckoutMetrics
    private let logger: Logger
    private let gate = KafkaCircuitBreaker()

    init(
        producer: KafkaProducer, patientProducer: KafkaProducer, group: any EventLoopGroup, topics: Topics,
        brands: BrandLibrary, tokens: TokenAuthority,
        metrics: CheckoutMetrics, logger: Logger
    ) {
        self.producer = producer
        self.patientProducer = patientProducer
        self.group = group
        self.topics = topics
        self.brands = brands
        self.tokens = tokens
        self.metrics = metrics
        self.logger = logger
    }

    /// Returns the packager's own fold for orders of a type.
    ///
    /// - Throws: `not_found` for a type without a brand, `unavailable` for one whose brand cannot be loaded now.
    func fold(of type: OrderTypeIdentifier) throws(CheckoutFailure) -> OrderFold {
        guard let brand = self.brands.brands[type] else {
            guard self.brands.serves(type) else {
                throw CheckoutFailure(.notFound, "unknown order type")
            }
            throw CheckoutFailure.unavailable("the brand of this order type cannot be loaded", retryAfterSeconds: 60)
        }
        return OrderFold(rules: brand.rules) { [tokens] in tokens.token(for: $0) }
    }

    /// Refuses a document that would become a dead letter.
    ///
    /// - Throws: `order_invalid` with the places that are wrong.
    func check(_ document: JSONObject, of key: OrderKey) throws(CheckoutFailure) {
        let violations = try self.fold(of: key.orderType).violations(
            in: OrderDocument(members: document), of: key, nowEpochSeconds: Int64(Date().timeIntervalSince1970))
        guard violations.isEmpty else { throw Self.invalid(violations) }
    }

    static func invalid(_ violations: [Violation]) -> CheckoutFailure {
        var failure = CheckoutFailure(.orderInvalid, "the order would not be valid", param: "order")
        failure.details = violations
        return failure
    }

    /// Publishes a change and waits for its acknowledgement.
    ///
    /// - Throws: `body_too_large` for a change that no topic accepts, `unavailable` if Kafka does not acknowledge in
    ///   time. The change may arrive nevertheless, and repeating it is harmless.
    func publish(_ event: OrderEvent) async throws(CheckoutFailure) {
        let message = event.message(topic: self.topics.orderChanges)
        guard (message.value?.count ?? 0) <= OrderChange.valueLimit else {
            throw CheckoutFailure(.bodyTooLarge, "a change may have \(OrderChange.valueLimit) bytes at most")
        }
        do throws(KafkaError) {
            _ = try await self.gate.produce(message, with: self.producer)
            self.metrics.changed(.published)
        } catch {
            self.metrics.changed(.failed)
            guard error.code != .messageTooLarge else {
                throw CheckoutFailure(.bodyTooLarge, "the change is larger than the topic of changes allows")
            }
            self.logger.warning(
                "cannot publish a change",
                metadata: ["order": "\(event.key)", "error": "\(error)"].traced(event.trace))
            var failure = CheckoutFailure.unavailable("the change could not be published, try it again")
            failure.mayHaveActed = true
            throw failure
        }
    }

    /// Publishes the order of a customer who has been charged. Waits briefly, while the producer keeps retrying.
    ///
    /// - Throws: `unavailable` if it is not acknowledged yet. It may still arrive; if it does not, that is logged.
    func publishPatiently(_ event: OrderEvent) async throws(CheckoutFailure) {
        let message = event.message(topic: self.topics.orderChanges)
        let eventLoop = self.group.next()
        let isDone = eventLoop.makePromise(of: Bool.self)
        let delivery = eventLoop.makeFutureWithTask { [patientProducer] in
            try await patientProducer.produce(message)
        }
        delivery.whenComplete { [metrics, logger] result in
            switch result {
            case .success:
                metrics.changed(.published)
                isDone.succeed(true)
            case .failure(let error):
                metrics.changed(.failed)
                logger.error(
                    "cannot publish the order of a payment",
                    metadata: ["order": "\(event.key)", "error": "\(error)"])
                isDone.succeed(false)
            }
        }
        eventLoop.scheduleTask(in: Self.patience) { isDone.succeed(false) }
        guard (try? await isDone.futureResult.get()) == true else {
            throw CheckoutFailure.unavailable("the order is not acknowledged yet")
        }
    }
}
