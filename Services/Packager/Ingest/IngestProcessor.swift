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

    /// The most records, and about the most bytes, that a process gets at once.
    private static let chunkRecords = 64
    private static let chunkBytes = 1 << 20

    let topics: Topics
    let producer: KafkaProducer
    let deadLetters: DeadLetterPublisher
    let metrics: IngestMetrics
    let table: @Sendable () -> SourceTable
    let mapper: SourceMapper
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
        /// The number of records of each piece of work that are mapped.
        var done: [Int]
        /// The work of each source that has records to map, in order.
        var open: [(source: Source, places: [Int])] = []
        /// The work of which a record has waited for its order as long as it may. The time of the first one is that of
        /// all: each would begin to wait when the one before ends.
        var late: Set<Int> = []
    }

    /// Records of one source that are mapped together, each with the place of its work.
    private struct Chunk: Sendable {
        let source: Source
        var records: [KafkaRecord] = []
        var places: [Int] = []
        var bytes = 0
    }

    /// - Returns: one outcome for each piece of work, in order.
    func process(_ works: [KeyedWork]) async -> [KeyedWork.Outcome] {
        let table = self.table()
        var batch = Batch(
            outcomes: BatchOutcomes(count: works.count), done: Array(repeating: 0, count: works.count))
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

    /// Maps records up to the end of the batch's time, those of sources beside each other.
    private func map(_ works: [KeyedWork], _ table: SourceTable, into batch: inout Batch) async {
        let end = ContinuousClock.now + self.longest
        for (place, work) in works.enumerated() {
            guard let topic = work.records.first?.topic, let source = table.source(of: topic) else {
                batch.outcomes.postpone(place, "no source reads \(work.records.first?.topic ?? "it") any more")
                continue
            }
            if let index = batch.open.firstIndex(where: { $0.source.name == source.name }) {
                batch.open[index].places.append(place)
            } else {
                batch.open.append((source, [place]))
            }
        }
        while !batch.open.isEmpty, .now < end {
            let chunks = batch.open.indices.map { self.chunk(of: $0, works, &batch) }
            let now = self.now() / 1000
            let results = await withTaskGroup(of: (Int, [SourceMapper.Mapped]).self) { group in
                for (index, chunk) in chunks.enumerated() where !chunk.records.isEmpty {
                    group.addTask { (index, await self.mapper.map(chunk.records, chunk.source, nowEpochSeconds: now)) }
                }
                return await group.reduce(into: [Int: [SourceMapper.Mapped]]()) { $0[$1.0] = $1.1 }
            }
            for (index, chunk) in chunks.enumerated() {
                for (mapped, (place, record)) in zip(results[index] ?? [], zip(chunk.places, chunk.records))
                where !batch.outcomes.isPostponed(place) {
                    self.take(mapped, record, works[place], chunk.source.name, at: place, &batch)
                }
                if batch.bytes > Self.publishBytes { await self.publish(&batch) }
            }
            for index in batch.open.indices {
                batch.open[index].places.removeAll {
                    batch.outcomes.isPostponed($0) || batch.done[$0] == works[$0].records.count
                }
            }
            batch.open.removeAll { $0.places.isEmpty }
        }
        for place in batch.open.flatMap(\.places) { batch.outcomes.end(place, after: batch.done[place]) }
    }

    /// Returns the next records of a source, up to one whose schema is not there.
    private func chunk(of index: Int, _ works: [KeyedWork], _ batch: inout Batch) -> Chunk {
        var chunk = Chunk(source: batch.open[index].source)
        for place in batch.open[index].places {
            for record in works[place].records[batch.done[place]...] {
                guard chunk.records.count < Self.chunkRecords, chunk.bytes < Self.chunkBytes else { return chunk }
                let record = record.keyed(SourceKey.original(record.key))
                if let away = chunk.source.reasonToAwait(record) {
                    // Those before it are mapped first.
                    if chunk.places.last != place { batch.outcomes.postpone(place, away) }
                    break
                }
                chunk.records.append(record)
                chunk.places.append(place)
                chunk.bytes += record.size
            }
        }
        return chunk
    }

    private func take(
        _ mapped: SourceMapper.Mapped, _ record: KafkaRecord, _ work: KeyedWork, _ source: String, at place: Int,
        _ batch: inout Batch
    ) {
        let mapping: SourceMapping
        switch mapped {
        case .waits(let reason): return batch.outcomes.postpone(place, reason)
        case .mapped(let found, let took):
            mapping = found
            if case .refused(let fault) = mapping.outcome, fault.code == .mapUnknownAlias, !batch.late.contains(place) {
                let bytes = work.records.reduce(0) { $0 + $1.size }
                if let time = self.unknown.wait(work.key ?? [], bytes: bytes, now: .now) {
                    return batch.outcomes.wait(place, min(time, Self.aliasPause))
                }
                batch.late.insert(place)
            }
            self.account(for: mapping, of: record, source, took: took)
        }
        self.add(mapping, of: record, source, at: place, to: &batch)
        batch.done[place] += 1
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
