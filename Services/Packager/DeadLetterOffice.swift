import CoreMetrics
import Kafka
import Logging
import Model
import Synchronization

/// Puts records that cannot be applied aside, each once however often their batch is tried again.
///
/// Bounded: remembers letters of one batch only.
final class DeadLetterOffice: Sendable {
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

    /// Begins a batch, or begins it again: letters of other records are forgotten.
    func begin(_ records: [KafkaRecord]) { self.sent.withLock { $0.formIntersection(records.map(Origin.init)) } }

    /// Sends what was not sent before and waits for the acknowledgements.
    ///
    /// A letter that is larger than the topic takes goes without its value: it would stand in the way for ever.
    /// - Throws: `NotDone`; the letters that were acknowledged are not sent again.
    func send(_ refused: [ChangeBatch.Refused]) async throws(ChangeProcessor.NotDone) {
        let fresh = self.sent.withLock { sent in refused.filter { !sent.contains(Origin($0.record)) } }
        let tooLarge = try await self.send(fresh) {
            DeadLetter.message(of: $0.record, fault: $0.fault, topics: self.topics)
        }
        let rest = try await self.send(tooLarge) {
            DeadLetter.messageWithoutValue(of: $0.record, fault: $0.fault, topics: self.topics)
        }
        guard rest.isEmpty else {
            throw ChangeProcessor.NotDone(description: "publishing dead letters: too large even without their values")
        }
    }

    /// - Returns: those that are too large.
    private func send(
        _ refused: [ChangeBatch.Refused], _ message: (ChangeBatch.Refused) -> KafkaMessage
    ) async throws(ChangeProcessor.NotDone) -> [ChangeBatch.Refused] {
        var tooLarge: [ChangeBatch.Refused] = []
        var failure: KafkaError?
        for (letter, outcome) in zip(refused, await self.producer.produce(refused.map(message))) {
            switch outcome {
            case .success: self.account(for: letter)
            case .failure(let error) where error.code == .messageTooLarge: tooLarge.append(letter)
            case .failure(let error): failure = error
            }
        }
        if let failure {
            throw ChangeProcessor.NotDone(description: "publishing dead letters: \(failure.message)")
        }
        return tooLarge
    }

    private func account(for letter: ChangeBatch.Refused) {
        let (record, fault) = (letter.record, letter.fault)
        _ = self.sent.withLock { $0.insert(Origin(record)) }
        self.metrics.deadLetters.increment()
        self.logger.warning(
            "dead letter",
            metadata: [
                "error": "\(fault.code.rawValue)", "reason": "\(fault.reason)",
                "origin": "\(DeadLetter.origin(of: record))",
            ])
    }
}
