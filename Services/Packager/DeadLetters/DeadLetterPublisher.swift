import CoreMetrics
import Kafka
import Logging
import Model
import Operations
import Synchronization

/// Publishes dead letters for records that cannot be applied, each once, however often its order's work is retried.
///
/// Bounded: remembers the dead letters of records in hand, at most `limit`.
final class DeadLetterPublisher: Sendable {
    /// The most dead letters of unfinished work that are remembered, enough for all records that a worker has in hand;
    /// beyond that, some may be sent twice.
    static let limit = 50_000

    private struct Origin: Hashable {
        let topic: String
        let position: ChangePosition

        init(_ record: KafkaRecord) {
            self.topic = record.topic
            self.position = ChangePosition(record)
        }
    }

    private let topics: Topics
    private let producer: KafkaProducer
    /// Dead letters that were sent.
    private let counter: Counter
    private let logger: Logger
    private let spans: SpanExporter?
    private let sent = Mutex<Set<Origin>>([])

    init(
        topics: Topics, producer: KafkaProducer, counter: Counter, logger: Logger, spans: SpanExporter? = nil
    ) {
        self.topics = topics
        self.producer = producer
        self.counter = counter
        self.logger = logger
        self.spans = spans
    }

    /// Forgets records that are done. If one is redelivered, it is not known whether its dead letter was sent.
    func forget(_ records: [KafkaRecord]) {
        self.sent.withLock { sent in
            for record in records {
                // For nearly every batch there is nothing to forget.
                if sent.isEmpty { break }
                sent.remove(Origin(record))
            }
        }
    }

    /// Sends the dead letters that were not sent before and waits for the acknowledgements; work whose dead letter
    /// failed is postponed.
    ///
    /// A dead letter that is too large for the topic is sent without its value; otherwise it would block its order
    /// forever.
    func send(_ refused: [RefusedRecord], _ batchOutcomes: inout BatchOutcomes) async {
        guard !refused.isEmpty else { return }
        let fresh = self.sent.withLock { sent in refused.filter { !sent.contains(Origin($0.record)) } }
        let tooLarge = await self.send(fresh, &batchOutcomes) {
            DeadLetter.message(of: $0.record, fault: $0.fault, trace: $0.trace, topics: self.topics)
        }
        let rest = await self.send(tooLarge, &batchOutcomes) {
            DeadLetter.messageWithoutValue(of: $0.record, fault: $0.fault, trace: $0.trace, topics: self.topics)
        }
        batchOutcomes.postpone(rest.map(\.place), "publishing a dead letter: too large even without its value")
    }

    /// - Returns: those that are too large.
    private func send(
        _ refused: [RefusedRecord], _ batchOutcomes: inout BatchOutcomes,
        _ message: (RefusedRecord) -> KafkaMessage
    ) async -> [RefusedRecord] {
        guard !refused.isEmpty else { return [] }
        var tooLarge: [RefusedRecord] = []
        for (letter, outcome) in zip(refused, await self.producer.produce(refused.map(message))) {
            switch outcome {
            case .success: self.account(for: letter)
            case .failure(let error) where error.code == .messageTooLarge: tooLarge.append(letter)
            case .failure(let error):
                batchOutcomes.postpone(letter.place, "publishing a dead letter: \(error.message)")
            }
        }
        return tooLarge
    }

    private func account(for letter: RefusedRecord) {
        let (record, fault) = (letter.record, letter.fault)
        self.sent.withLock { sent in
            if sent.count >= Self.limit { _ = sent.popFirst() }
            sent.insert(Origin(record))
        }
        self.counter.increment()
        var metadata = Logger.Metadata(order: record.key)
        metadata["error"] = "\(fault.code.rawValue)"
        metadata["reason"] = "\(fault.reason)"
        metadata["origin"] = "\(DeadLetter.origin(of: record))"
        self.logger.warning("dead letter", metadata: metadata.traced(letter.trace))
        guard let spans = self.spans, let trace = letter.trace else { return }
        let now = TraceSpan.now
        spans.record(
            TraceSpan(
                "waybill.dead_letter", .producer, of: [trace], from: now, to: now,
                attributes: [("waybill.outcome", .string(fault.code.rawValue))], isError: true))
    }
}
