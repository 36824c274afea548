import CRDKafka
import Synchronization

/// Produces idempotently and tells the fate of every message when all replicas have it.
///
/// Owner: the polling thread owns the C handle's end; this object asks it to stop when it goes away.
/// Thread: one of its own, for delivery reports. Queueing is done on the caller's thread and does not block.
/// Bounded: 100,000 messages or 64 MiB wait in librdkafka, a full queue is waited for up to `queueWait`, a message is
/// given up after `delivery.timeout.ms` (30 s).
public final class KafkaProducer: Sendable {
    /// How long closing waits for messages under way. What is left then fails with `.closed`.
    static let flushWait = Duration.seconds(10)

    private let core: ProducerThread
    private let queueWait: Duration

    /// Connects in the background.
    ///
    /// - Parameter queueWait: how long a call may wait for room. Default 10 s.
    /// - Throws: `.configuration` naming the property.
    public init(_ configuration: KafkaConfiguration, queueWait: Duration = .seconds(10)) throws(KafkaError) {
        self.queueWait = queueWait
        self.core = try ProducerThread(
            properties: try configuration.resolved(defaults: Self.defaults, fixed: [:]),
            onEvent: configuration.onEvent)
    }

    deinit {
        self.core.stop()
    }

    /// What the caller's properties may override.
    static let defaults = [
        "client.id": "waybill",
        "enable.idempotence": "true",
        "acks": "all",
        "linger.ms": "2",
        "delivery.timeout.ms": "30000",
        // A dead letter carries whatever came, with headers on top.
        "message.max.bytes": "8388608",
        "queue.buffering.max.kbytes": "65536",
        // Keys land in the partitions that Java producers choose. Source: librdkafka CONFIGURATION.md, partitioner
        "partitioner": "murmur2_random",
        "socket.nagle.disable": "true",
        "reconnect.backoff.max.ms": "2000",
    ]

    /// Produces and waits until every message is acknowledged or given up: one result each, in order.
    ///
    /// The offset is -1 if the broker had an idempotent retry already. A cancelled task queues nothing more
    /// (`.cancelled`) but waits for what is queued, since that can no longer be taken back.
    /// Failures: `.queueFull`, `.messageTooLarge`, `.unknownTopic`, `.timedOut`, `.closed`, or fatal ones.
    public func produce(_ messages: [KafkaMessage]) async -> [Result<KafkaPosition, KafkaError>] {
        if messages.isEmpty { return [] }
        let batch = DeliveryBatch(count: messages.count)
        let slots = unsafe batch.lease(count: messages.count)
        let deadline = ContinuousClock.now + self.queueWait
        for (index, message) in messages.enumerated() {
            while let error = unsafe self.core.queue(message, slots + index) {
                if error.code == .queueFull, !Task.isCancelled, deadline > .now {
                    // Cancellation ends the sleep early and is seen by the next turn.
                    try? await Task.sleep(for: .milliseconds(2))
                    continue
                }
                let isCancelled = error.code == .queueFull && Task.isCancelled
                batch.refuse(
                    index, isCancelled ? KafkaError(.cancelled, "producing to \(message.topic): cancelled") : error)
                break
            }
        }
        return unsafe await batch.outcomes(slots)
    }

    /// Produces one message and waits until it is acknowledged.
    public func produce(_ message: KafkaMessage) async throws(KafkaError) -> KafkaPosition {
        let outcomes = await self.produce([message])
        guard let outcome = outcomes.first else { throw KafkaError(.refused, "producing: no report") }
        return try outcome.get()
    }

    /// Waits up to 10 s for messages under way, then ends. Again is harmless.
    public func close() async { await self.core.close() }
}
