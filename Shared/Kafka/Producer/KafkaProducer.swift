import CRDKafka
import Synchronization

/// An idempotent producer that returns the result of every message once all replicas have it.
///
/// Owner: the polling thread owns the end of the C handle; this object asks it to stop when it is released.
/// Thread: one of its own, for delivery reports. Queueing is done on the caller's thread and does not block.
/// Bounded: 100,000 messages or 64 MiB wait in librdkafka, a call waits for room in a full queue up to `queueWait`, a
/// message fails after `delivery.timeout.ms` (30 s).
///
/// An idempotent producer can fail permanently, when brokers and it no longer agree on what was written (rdkafka.h,
/// rd_kafka_fatal_error). Messages in flight then fail, and the next call works with a new handle. So a message that
/// failed with a fatal error may have been written, like one that timed out.
public final class KafkaProducer: Sendable {
    /// The shortest time between two replacements of a failed handle.
    static let renewalPause = Duration.seconds(1)

    private struct State {
        var core: ProducerThread
        var renewedAt: ContinuousClock.Instant?
        var isClosed = false
    }

    /// The longest time that closing waits for messages in flight. Any left then fail with `.closed`.
    static let flushWait = Duration.seconds(10)

    private let state: Mutex<State>
    private let properties: [(String, String)]
    private let topics: [String]
    private let onEvent: (@Sendable (KafkaEvent) -> Void)?
    private let onAnswer: (@Sendable (String, Duration) -> Void)?
    private let queueWait: Duration

    /// Connects in the background.
    ///
    /// - Parameters:
    ///   - topics: the topics to produce to, looked up now: otherwise the first message to each takes up to a second.
    ///   - queueWait: the longest time that a call waits for room. Default 10 s.
    /// - Throws: `.configuration` naming the property.
    public init(
        _ configuration: KafkaConfiguration, topics: [String] = [], queueWait: Duration = .seconds(10)
    ) throws(KafkaError) {
        self.topics = topics
        self.queueWait = queueWait
        self.properties = try configuration.naming { () throws(KafkaError) in
            try configuration.resolved(defaults: Self.defaults, fixed: [:])
        }
        self.onEvent = configuration.onEvent
        self.onAnswer = configuration.onAnswer
        let (properties, onEvent) = (self.properties, self.onEvent)
        let core = try configuration.naming { () throws(KafkaError) in
            try ProducerThread(properties: properties, topics: topics, onEvent: onEvent)
        }
        self.state = Mutex(State(core: core))
    }

    deinit {
        self.state.withLock { $0.core.stop() }
    }

    /// The most bytes of key and value in a message, `message.max.bytes`; a topic may accept fewer.
    public var messageLimit: Int {
        self.properties.last { $0.0 == "message.max.bytes" }.flatMap { Int($0.1) } ?? Int.max
    }

    /// The identifier of the cluster, known once a message was acknowledged; empty if the cluster does not report it.
    /// Does not wait.
    public var cluster: String { self.core.cluster }

    /// The handle of the calls that begin now, unless it has failed.
    var core: ProducerThread { self.state.withLock { $0.core } }

    /// Returns the handle to work with: a new one if the last one failed permanently.
    private func current() -> ProducerThread {
        self.state.withLock { state in
            guard state.core.hasFailed, !state.isClosed else { return state.core }
            let now = ContinuousClock.now
            if let last = state.renewedAt, now - last < Self.renewalPause { return state.core }
            state.renewedAt = now
            // Without a thread or memory for another one, the failed one continues to report that it failed.
            let made = try? ProducerThread(properties: self.properties, topics: self.topics, onEvent: self.onEvent)
            guard let renewed = made else { return state.core }
            // The failed one is ended by its thread once its messages have their reports.
            state.core.stop()
            state.core = renewed
            self.onEvent?(
                KafkaEvent(severity: .warning, kind: .error, message: "producing: continuing with a new producer"))
            return renewed
        }
    }

    /// Defaults that the caller's properties may override.
    static let defaults = [
        "client.id": "waybill",
        "enable.idempotence": "true",
        "acks": "all",
        "linger.ms": "2",
        "delivery.timeout.ms": "30000",
        // A dead letter carries any record, plus headers.
        "message.max.bytes": "8388608",
        "queue.buffering.max.kbytes": "65536",
        // Keys map to the same partitions as with Java producers. Source: librdkafka CONFIGURATION.md, partitioner
        "partitioner": "murmur2_random",
        "socket.nagle.disable": "true",
        "reconnect.backoff.max.ms": "2000",
        // A topic created by a producer would have the cluster's settings, and not be compacted.
        "allow.auto.create.topics": "false",
    ]

    /// Produces and waits until every message is acknowledged or has failed: one result each, in order.
    ///
    /// The offset is -1 if the broker already had the message of an idempotent retry. A cancelled task queues nothing
    /// more (`.cancelled`) but waits for messages already queued, since those cannot be taken back. Failures:
    /// `.queueFull`, `.messageTooLarge`, `.unknownTopic`, `.timedOut`, `.closed`, or fatal ones.
    public func produce(_ messages: [KafkaMessage]) async -> [Result<KafkaPosition, KafkaError>] {
        if messages.isEmpty { return [] }
        let batch = DeliveryBatch(count: messages.count)
        let slots = unsafe batch.lease(count: messages.count)
        let began = ContinuousClock.now
        let deadline = began + self.queueWait
        let core = self.current()
        for (index, message) in messages.enumerated() {
            while let error = unsafe core.queue(message, slots + index) {
                if error.code == .queueFull, !Task.isCancelled, deadline > .now {
                    // Cancellation ends the sleep early and is seen by the next iteration.
                    try? await Task.sleep(for: .milliseconds(2))
                    continue
                }
                let isCancelled = error.code == .queueFull && Task.isCancelled
                batch.refuse(
                    index,
                    isCancelled
                        ? KafkaError(.cancelled, "producing to \(message.topic): cancelled")
                        : self.explained(error, message))
                break
            }
        }
        let outcomes = unsafe await batch.outcomes(slots)
        self.onAnswer?("produce", .now - began)
        self.tellRefusals(outcomes, messages)
        return outcomes
    }

    /// Returns the refusal of a message by a handle that another call replaces: the producer itself is open. The rest
    /// of a batch does not go to the new handle, where it would be ahead of the messages that failed with the old one.
    private func explained(_ error: KafkaError, _ message: KafkaMessage) -> KafkaError {
        guard error.code == .closed, !self.state.withLock({ $0.isClosed }) else { return error }
        return KafkaError(
            .refused, "producing to \(message.topic): the producer failed, and is being replaced", isRetriable: true)
    }

    /// Reports the topics that we may not write to, once for all messages.
    private func tellRefusals(_ outcomes: [Result<KafkaPosition, KafkaError>], _ messages: [KafkaMessage]) {
        var reported: Set<String> = []
        for (index, outcome) in outcomes.enumerated() {
            guard case .failure(let error) = outcome, error.code == .authorization,
                reported.insert(messages[index].topic).inserted
            else { continue }
            self.onEvent?(KafkaEvent(.error, error, .producer(topics: self.topics), topic: messages[index].topic))
        }
    }

    /// Produces one message and waits until it is acknowledged.
    public func produce(_ message: KafkaMessage) async throws(KafkaError) -> KafkaPosition {
        let outcomes = await self.produce([message])
        guard let outcome = outcomes.first else { throw KafkaError(.refused, "producing: no report") }
        return try outcome.get()
    }

    /// Waits up to 10 s for messages in flight, then closes the producer. Calling it again is harmless.
    public func close() async {
        let core = self.state.withLock { state in
            state.isClosed = true
            return state.core
        }
        await core.close()
    }
}
