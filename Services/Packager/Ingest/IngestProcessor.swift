import FoundationEssentials
import Kafka
import Logging
import Model
import Operations

/// Maps a batch of sources' records and publishes the changes, up to the acknowledgement of each.
///
/// A record is done once all its changes or its dead letter are acknowledged; so a worker that dies maps it again, and
/// the packager knows the changes by their `source` and `id`.
struct IngestProcessor: Sendable {
    /// The most bytes of changes that are published together.
    private static let publishBytes = 8 << 20

    let topics: Topics
    let producer: KafkaProducer
    let deadLetters: DeadLetterPublisher
    let metrics: IngestMetrics
    let table: @Sendable () -> SourceTable
    /// Milliseconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }

    /// A change and the place of its record's work in the batch.
    private struct Draft {
        let place: Int
        let record: KafkaRecord
        let change: SourceMapping.Change
        let source: String
    }

    /// - Returns: one outcome for each piece of work, in order.
    func process(_ works: [KeyedWork]) async -> [KeyedWork.Outcome] {
        let table = self.table()
        var outcomes = BatchOutcomes(count: works.count)
        var drafts: [Draft] = []
        var refused: [RefusedRecord] = []
        var bytes = 0
        var schemas: [String: [UInt32: Result<AvroSchema, ChangeFault>]] = [:]
        CrashPoint.reached(.batchTaken)
        for (place, work) in works.enumerated() {
            for record in work.records {
                guard let source = table.source(of: record.topic) else {
                    outcomes.postpone(place, "no source reads \(record.topic) any more")
                    break
                }
                let record = record.keyed(SourceKey.original(record.key))
                if let away = await source.add(schemaOf: record, to: &schemas[source.name, default: [:]]) {
                    outcomes.postpone(place, away)
                    break
                }
                switch self.map(record, source, schemas[source.name] ?? [:]) {
                case .mapped(let changes):
                    for change in changes {
                        drafts.append(Draft(place: place, record: record, change: change, source: source.name))
                        bytes += change.message.value?.count ?? 0
                    }
                case .ignored: break
                case .refused(let fault): refused.append(RefusedRecord(place: place, record: record, fault: fault))
                }
                if bytes > Self.publishBytes {
                    await self.publish(drafts, &refused, &outcomes)
                    (drafts, bytes) = ([], 0)
                }
            }
        }
        await self.publish(drafts, &refused, &outcomes)
        await self.deadLetters.send(refused, &outcomes)
        CrashPoint.reached(.deadLettersSent)
        self.deadLetters.forget(zip(works, outcomes.outcomes).filter { $0.1 == .done }.flatMap(\.0.records))
        return outcomes.outcomes
    }

    private func map(
        _ record: KafkaRecord, _ source: Source, _ schemas: [UInt32: Result<AvroSchema, ChangeFault>]
    ) -> SourceMapping.Outcome {
        let start = ContinuousClock.now
        let now = self.now()
        let mapping = SourceMapping(
            record, source, topic: self.topics.orderChanges, schemas: schemas, nowEpochSeconds: now / 1000)
        self.metrics.mapped(mapping, source.name, took: .now - start)
        if record.timestampMilliseconds >= 0 {
            self.metrics.age(.milliseconds(max(0, now - record.timestampMilliseconds)), source.name)
        }
        return mapping.outcome
    }

    /// Publishes changes in sequence. After one that fails, no later one of its work is published.
    private func publish(
        _ drafts: [Draft], _ refused: inout [RefusedRecord], _ outcomes: inout BatchOutcomes
    ) async {
        let open = drafts.filter { !outcomes.isPostponed($0.place) }
        guard !open.isEmpty else { return }
        for (draft, outcome) in zip(open, await self.producer.produce(open.map(\.change.message))) {
            switch outcome {
            case .success: self.metrics.published(draft.change.type, draft.source)
            case .failure(let error) where error.code == .messageTooLarge:
                let fault = ChangeFault(
                    code: .mapInvalidChange, reason: "a change is too large for \(self.topics.orderChanges)")
                refused.append(RefusedRecord(place: draft.place, record: draft.record, fault: fault))
            case .failure(let error):
                outcomes.postpone(draft.place, "publishing a change: \(error.message)")
            }
        }
        CrashPoint.reached(.published)
    }
}
