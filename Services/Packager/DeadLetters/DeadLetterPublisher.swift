import CoreMetrics
import Kafka
import Logging
import Model
import Synchronization

/// Puts records that cannot be applied aside, each once however often its order's work is tried again.
///
/// Bounded: remembers letters of records in hand, and no more than `limit`.
final class DeadLetterPublisher: Sendable {
    /// Beyond as many letters of unfinished work as the worker has records in hand, some may go twice.
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
    private let metrics: PackagerMetrics
    private let logger: Logger
    private let sent = Mutex<Set<Origin>>([])

    init(topics: Topics, producer: KafkaProducer, metrics: PackagerMetrics, logger: Logger) {
        self.topics = topics
        self.producer = producer
        self.metrics = metrics
        self.logger = logger
    }

    /// Records are done: they come again as redeliveries only, of which nobody knows whether their letter went out.
    func forget(_ records: [KafkaRecord]) {
        self.sent.withLock { sent in
            for record in records {
                // With nearly every batch there is nothing to forget.
                if sent.isEmpty { break }
                sent.remove(Origin(record))
            }
        }
    }

    /// Sends what was not sent before and waits for the acknowledgements; work whose letter failed is postponed.
    ///
    /// A letter that is larger than the topic takes goes without its value: it would stand in the way for ever.
    func send(_ refused: [RefusedRecord], _ batchOutcomes: inout BatchOutcomes) async {
        guard !refused.isEmpty else { return }
        let fresh = self.sent.withLock { sent in refused.filter { !sent.contains(Origin($0.record)) } }
        let tooLarge = await self.send(fresh, &batchOutcomes) {
            DeadLetter.message(of: $0.record, fault: $0.fault, topics: self.topics)
        }
        let rest = await self.send(tooLarge, &batchOutcomes) {
            DeadLetter.messageWithoutValue(of: $0.record, fault: $0.fault, topics: self.topics)
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
        self.metrics.deadLetters.increment()
        self.logger.warning(
            "dead letter",
            metadata: [
                "error": "\(fault.code.rawValue)", "reason": "\(fault.reason)",
                "origin": "\(DeadLetter.origin(of: record))",
            ])
    }
}
