import FoundationEssentials
import Kafka
import Logging
import Model
import Operations
import Store

/// Maps a batch of sources' records and publishes the changes, up to the acknowledgement of each.
///
/// A record is done once all its changes or its dead letter are acknowledged; so a worker that dies maps it again, and
/// the packager knows the changes by their `source` and `id`.
struct IngestProcessor: Sendable {
    /// The most bytes of changes that are published together.
    private static let publishBytes = 8 << 20

    /// The time after which a record that waits for its parcel's order looks for it again.
    private static let aliasPause = Duration.seconds(1)

    /// The time after which the rest of a batch is computed on other threads, where slow programs take turns of this
    /// length: a record may take 50 ms, and the present threads are those of all sources, of fetching and of probes.
    private static let turn = Duration.milliseconds(5)

    let topics: Topics
    let producer: KafkaProducer
    let deadLetters: DeadLetterPublisher
    let metrics: IngestMetrics
    let table: @Sendable () -> SourceTable
    /// The orders of parcels that programs ask for.
    let parcels: ParcelIndex
    /// The keys whose records wait for the order of a parcel.
    let unknown: UnknownOrders
    /// Takes the spans of records; nil if there is no collector.
    var spans: SpanExporter?
    /// The time after which a batch ends before its records do, so that a stop need not wait for a slow program.
    var longest = Duration.seconds(2)
    /// Milliseconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }

    /// A change and the place of its record's work in the batch.
    private struct Draft {
        let place: Int
        let record: KafkaRecord
        let change: SourceMapping.Change
        let source: String
    }

    /// The outcomes of a batch, and the changes that it makes.
    private struct Batch {
        var outcomes: BatchOutcomes
        var drafts: [Draft] = []
        var bytes = 0
        /// The reasons why changes of orders could not be published, by order.
        var unpublished: [OrderKey: String] = [:]
        var refused: [RefusedRecord] = []
        /// The place of the work, and of its record, that comes next.
        var next = (work: 0, record: 0)
        /// True if a record of this work has waited for its order as long as it may. The time of the first one is that
        /// of all: each would begin to wait when the one before ends.
        var isLate = false
        /// By source.
        var schemas: [String: [UInt32: Result<AvroSchema, ChangeFault>]] = [:]
    }

    /// - Returns: one outcome for each piece of work, in order.
    func process(_ works: [KeyedWork]) async -> [KeyedWork.Outcome] {
        let table = self.table()
        var batch = Batch(outcomes: BatchOutcomes(count: works.count))
        CrashPoint.reached(.batchTaken)
        await self.map(works, table, into: &batch)
        await self.publish(&batch)
        await self.deadLetters.send(batch.refused, &batch.outcomes)
        CrashPoint.reached(.deadLettersSent)
        let outcomes = batch.outcomes.outcomes
        // The rest of a key began to wait with its first record, too.
        let ended = zip(works, outcomes).lazy.filter { !$0.1.isWaiting && !$0.1.isPart }
        self.unknown.forget(ended.compactMap(\.0.key))
        self.deadLetters.forget(zip(works, outcomes).flatMap { $0.finished(by: $1) })
        return outcomes
    }

    private func map(_ works: [KeyedWork], _ table: SourceTable, into batch: inout Batch) async {
        let end = ContinuousClock.now + self.longest
        await self.takeTurn(works, table, &batch)
        if batch.next.work < works.count {
            await withTaskExecutorPreference(BackgroundExecutor.shared) {
                while batch.next.work < works.count, .now < end {
                    await self.takeTurn(works, table, &batch)
                    await Task.yield()
                }
            }
        }
        for place in batch.next.work..<works.count {
            batch.outcomes.end(place, after: place == batch.next.work ? batch.next.record : 0)
        }
    }

    /// Maps records until their time is over, those of a key up to one that must wait.
    private func takeTurn(_ works: [KeyedWork], _ table: SourceTable, _ batch: inout Batch) async {
        let end = ContinuousClock.now + Self.turn
        while batch.next.work < works.count, .now < end {
            let (work, place) = (works[batch.next.work], batch.next.record)
            if await self.map(work.records[place], of: work, table, into: &batch), place + 1 < work.records.count {
                batch.next.record += 1
            } else {
                batch.next = (batch.next.work + 1, 0)
                batch.isLate = false
            }
        }
    }

    /// - Returns: false if the work must wait.
    private func map(
        _ record: KafkaRecord, of work: KeyedWork, _ table: SourceTable, into batch: inout Batch
    ) async -> Bool {
        let place = batch.next.work
        guard let source = table.source(of: record.topic) else {
            batch.outcomes.postpone(place, "no source reads \(record.topic) any more")
            return false
        }
        let record = record.keyed(SourceKey.original(record.key))
        if let away = source.add(knownSchemaOf: record, to: &batch.schemas[source.name, default: [:]]) {
            batch.outcomes.postpone(place, away)
            return false
        }
        let start = ContinuousClock.now
        let mapping: SourceMapping
        do {
            mapping = try await SourceMapping.map(
                record, source, topic: self.topics.orderChanges, schemas: batch.schemas[source.name] ?? [:],
                index: self.parcels, nowEpochSeconds: self.now() / 1000)
        } catch {
            batch.outcomes.postpone(place, "\(error)")
            return false
        }
        if case .refused(let fault) = mapping.outcome, fault.code == .mapUnknownAlias, !batch.isLate {
            let bytes = work.records.reduce(0) { $0 + $1.size }
            if let time = self.unknown.wait(work.key ?? [], bytes: bytes, now: .now) {
                batch.outcomes.wait(place, min(time, Self.aliasPause))
                return false
            }
            batch.isLate = true
        }
        self.account(for: mapping, of: record, source.name, took: .now - start)
        self.add(mapping, of: record, source.name, at: place, to: &batch)
        if batch.bytes > Self.publishBytes { await self.publish(&batch) }
        return true
    }

    private func add(
        _ mapping: SourceMapping, of record: KafkaRecord, _ source: String, at place: Int, to batch: inout Batch
    ) {
        switch mapping.outcome {
        case .mapped(let changes):
            for change in changes {
                batch.drafts.append(Draft(place: place, record: record, change: change, source: source))
                batch.bytes += change.message.value?.count ?? 0
            }
        case .ignored: break
        case .refused(let fault): batch.refused.append(RefusedRecord(place: place, record: record, fault: fault))
        }
    }

    private func account(
        for mapping: SourceMapping, of record: KafkaRecord, _ source: String, took duration: Duration
    ) {
        self.metrics.mapped(mapping, source, took: duration)
        if let spans = self.spans { spans.record(mapping.span(of: record, source, took: duration, now: TraceSpan.now)) }
        guard record.timestampMilliseconds >= 0 else { return }
        self.metrics.age(.milliseconds(max(0, self.now() - record.timestampMilliseconds)), source)
    }

    /// Publishes changes, those of an order in sequence: one that fails is published again, and would come after a
    /// later one that was not. After one that fails, no later one of its work or of its order is published: each would
    /// wait for an acknowledgement as long as the first, and a batch may have hundreds of an order.
    private func publish(_ batch: inout Batch) async {
        let rounds = batch.drafts.rounds { $0.change.change.key }
        (batch.drafts, batch.bytes) = ([], 0)
        for round in rounds {
            for draft in round {
                guard let reason = batch.unpublished[draft.change.change.key] else { continue }
                batch.outcomes.postpone(draft.place, reason)
            }
            await self.publish(round.filter { !batch.outcomes.isPostponed($0.place) }, &batch)
        }
        CrashPoint.reached(.published)
    }

    /// Publishes changes of different orders.
    private func publish(_ drafts: [Draft], _ batch: inout Batch) async {
        for (draft, outcome) in zip(drafts, await self.producer.produce(drafts.map(\.change.message))) {
            switch outcome {
            case .success: self.metrics.published(draft.change.type, draft.source)
            case .failure(let error) where error.code == .messageTooLarge:
                let fault = ChangeFault(
                    code: .mapInvalidChange, reason: "a change is too large for \(self.topics.orderChanges)")
                batch.refused.append(RefusedRecord(place: draft.place, record: draft.record, fault: fault))
            case .failure(let error):
                let reason = "publishing a change: \(error.message)"
                batch.unpublished[draft.change.change.key] = reason
                batch.outcomes.postpone(draft.place, reason)
            }
        }
    }
}

extension SourceMapping {
    /// Returns the span of a record that was mapped until now; nil if its trace is not recorded.
    func span(of record: KafkaRecord, _ source: String, took duration: Duration, now: Int64) -> TraceSpan? {
        let trace = TraceContext(value: record.value, headers: record.headers.map { ($0.name, $0.value) })
        guard let trace else { return nil }
        let isRefused = if case .refused = self.outcome { true } else { false }
        return TraceSpan(
            "waybill.map", .consumer, of: [trace], from: now - Int64(duration / .nanoseconds(1)), to: now,
            attributes: [("waybill.source", .string(source)), ("waybill.outcome", .string(self.outcome.name))],
            isError: isRefused)
    }
}
