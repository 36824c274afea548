import CoreMetrics
import FoundationEssentials
import Kafka
import Logging
import Model
import Operations
import Packaging
import Store

/// Takes a batch of changes along a road of steps, up to the acknowledgement of everything that is published, and gives
/// each order an outcome: a failure of one order delays no other.
///
/// Each step takes the orders that are still open, and can be read alone: `ChangeBatch`, `OrderReader`, `DraftMaker`,
/// `IncompleteOrders`, `DeadLetterPublisher`, `DraftWriter`, `DraftPublisher`, `ChangeAccount`.
///
/// Source: Design §4.1, the seven steps; the worker does the last one
struct ChangeProcessor: Sendable {
    /// The most times that an order is read, folded and written while other workers write it in between.
    private static let conflictLimit = 5

    let topics: Topics
    /// The brands' packagers, the same for all of a batch.
    var packagers: [OrderTypeIdentifier: OrderPackager]
    let store: OrderStore
    let registrations: Registrations
    let producer: KafkaProducer
    let metrics: PackagerMetrics
    let logger: Logger
    /// The source of pictures that orders name by URL; nil leaves them out.
    var pictureIndex: PictureIndex?
    /// The reason to wait for an order type without a packager; nil if it has no brand: its changes become dead
    /// letters.
    var awaited: @Sendable (OrderTypeIdentifier) -> String? = { _ in nil }
    /// Confirms that the work is in the view that is served; nil skips the check.
    var view: ViewEpochCache?
    /// The versions that are packaged at once.
    var policy = PackagePolicy.always
    /// Milliseconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }
    /// The documents of all batches that are in work.
    let load: DocumentLoad
    /// The limit on records that can be published.
    let recordLimit: RecordLimit
    /// The orders that updates wait for; by default none do.
    var unknown: UnknownOrders
    private let deadLetters: DeadLetterPublisher
    private let spans: SpanExporter?

    init(
        topics: Topics, packagers: [OrderTypeIdentifier: OrderPackager], store: OrderStore,
        registrations: Registrations, producer: KafkaProducer, metrics: PackagerMetrics, logger: Logger,
        spans: SpanExporter? = nil
    ) {
        self.topics = topics
        self.packagers = packagers
        self.store = store
        self.registrations = registrations
        self.producer = producer
        self.metrics = metrics
        self.logger = logger
        self.unknown = UnknownOrders(patience: .zero, gauge: metrics.unknownOrders)
        self.load = DocumentLoad(metrics.documentBytes)
        self.recordLimit = RecordLimit(producer: producer.messageLimit)
        self.deadLetters = DeadLetterPublisher(
            topics: topics, producer: producer, counter: metrics.deadLetters, logger: logger, spans: spans)
        self.spans = spans
    }

    /// Processes orders, each of which is in only one batch of one process.
    ///
    /// - Parameter mark: is set before anything of the batch is decoded.
    /// - Returns: one outcome for each piece of work, in order.
    func process(_ works: [KeyedWork], marking mark: WorkMark? = nil) async -> [KeyedWork.Outcome] {
        var outcomes = BatchOutcomes(count: works.count)
        CrashPoint.reached(.batchTaken)
        let reader = OrderReader(store: self.store, view: self.view, metrics: self.metrics)
        var seen: OrderReader.Sights
        do {
            seen = try await reader.look(at: self.orders(of: works), marking: mark)
        } catch {
            outcomes.postpone(works.indices, "\(error)")
            return outcomes.outcomes
        }
        let batch = ChangeBatch(works) { self.availability(of: $0) }
        for (place, reason) in batch.awaiting { outcomes.postpone(place, reason) }
        await self.deadLetters.send(batch.refused, &outcomes)
        var open = batch.orders.filter { !outcomes.isPostponed($0.place) }
        for attempt in 0..<Self.conflictLimit where !open.isEmpty {
            do {
                if attempt > 0 { seen = try await reader.look(at: open.map { ($0.place, $0.key) }) }
                await self.advance(open, seen, reader, &outcomes)
            } catch {
                outcomes.postpone(open.map(\.place), "\(error)")
            }
            let overtaken = outcomes.takeOvertaken()
            open.removeAll { !overtaken.contains($0.place) }
        }
        outcomes.postpone(open.map(\.place), "writing an order: another worker keeps writing it")
        self.finish(works, outcomes.outcomes)
        return outcomes.outcomes
    }

    /// The orders that the keys of some work name, as far as their brands are loaded.
    private func orders(of works: [KeyedWork]) -> [(place: Int, key: OrderKey)] {
        works.enumerated().compactMap { place, work in
            guard let text = work.key.flatMap({ String(validating: $0, as: UTF8.self) }),
                let key = try? OrderKey(text), self.packagers[key.orderType] != nil
            else { return nil }
            return (place, key)
        }
    }

    /// Publishes a dead letter for a record that was begun alone several times, and each time the worker ended.
    ///
    /// Nothing of the record is decoded.
    func refuse(_ record: KafkaRecord) async -> KeyedWork.Outcome {
        let fault = ChangeFault(
            code: .workerEnded,
            reason: "\(SuspectKeys.mostBeginnings) workers ended, or stalled, while they had only this record in work: "
                + "look into their logs and crash reports, install a version in which that is mended, then replay this "
                + "dead letter")
        var outcomes = BatchOutcomes(count: 1)
        await self.deadLetters.send([RefusedRecord(undecoded: record, fault: fault)], &outcomes)
        self.finish([KeyedWork(key: record.key, records: [record])], outcomes.outcomes)
        return outcomes.outcomes[0]
    }

    private func availability(of type: OrderTypeIdentifier) -> ChangeBatch.BrandAvailability {
        if self.packagers[type] != nil { return .served }
        return self.awaited(type).map { .awaited($0) } ?? .unknown
    }

    /// Takes orders through steps 1 to 6, page by page, so that memory use does not grow with the documents in Redis.
    private func advance(
        _ orders: [BatchOrder], _ seen: OrderReader.Sights, _ reader: OrderReader, _ outcomes: inout BatchOutcomes
    ) async {
        let (first, others) = reader.first(orders, seen, &outcomes)
        await self.advance(first, &outcomes)
        var unread = others
        do {
            for page in others {
                let page = try await reader.page(page, &outcomes)
                unread.removeFirst()
                await self.advance(page, &outcomes)
            }
        } catch {
            // Orders that were processed keep their outcomes; of the rest nothing was read.
            outcomes.postpone(unread.joined().map(\.place), "\(error)")
        }
    }

    /// Takes the orders of a page through steps 2 to 6.
    private func advance(_ read: OrderReader.Page, _ outcomes: inout BatchOutcomes) async {
        var page = read
        self.load.add(page.bytes)
        defer { self.load.add(-page.bytes) }
        var moments = self.spans.map { _ in BatchMoments(start: page.moment.startNanoseconds) }
        moments?.ended(.read)
        CrashPoint.reached(.statesRead)
        let maker = DraftMaker(
            packagers: self.packagers, pictureIndex: self.pictureIndex, recordLimit: self.recordLimit,
            policy: self.policy, metrics: self.metrics)
        let folded = await maker.drafts(of: page.orders, nowEpochSeconds: self.now() / 1000, &outcomes)
        let made = page.sound(folded, &outcomes)
        moments?.ended(.sign)
        CrashPoint.reached(.signed)
        let incomplete = IncompleteOrders(
            unknown: self.unknown, topics: self.topics, producer: self.producer, logger: self.logger)
        var drafts = incomplete.settle(made, now: .now, &outcomes)
        // Before the write, which advances orders past these changes: a dead letter that failed after it would be lost,
        // since the next attempt takes its change for a redelivery.
        await self.deadLetters.send(page.damaged + drafts.flatMap(\.refused), &outcomes)
        CrashPoint.reached(.deadLettersSent)
        await DraftWriter(store: self.store, packagers: self.packagers, metrics: self.metrics)
            .write(outcomes.open(drafts), page, &outcomes)
        await incomplete.mark(outcomes.open(drafts), self.store, &outcomes)
        moments?.ended(.write)
        // After the write, which fails if another worker created their order: then they are no dead letters.
        await self.deadLetters.send(outcomes.open(drafts).flatMap(\.expired), &outcomes)
        await DraftPublisher(
            topics: self.topics, store: self.store, registrations: self.registrations, producer: self.producer,
            recordLimit: self.recordLimit, metrics: self.metrics
        ).publish(outcomes.open(drafts), nowEpochMilliseconds: self.now(), &outcomes)
        moments?.ended(.publish)
        drafts = outcomes.open(drafts)
        do {
            // A view that was lost since then is restored from what was published before the loss: this may be missing.
            if let epochs = page.moment.epochs { try await self.view?.confirm(epochs) }
            incomplete.awaitNext(drafts, &outcomes)
            ChangeAccount(metrics: self.metrics, logger: self.logger).count(drafts)
        } catch {
            outcomes.postpone(drafts.map(\.place), "\(error)")
        }
        if let spans = self.spans, let moments {
            for draft in made where !outcomes.isOvertaken(draft.place) {
                spans.record(moments.span(of: draft, outcomes.outcomes[draft.place]))
            }
        }
    }

    /// Forgets and counts what is done.
    private func finish(_ works: [KeyedWork], _ outcomes: [KeyedWork.Outcome]) {
        self.unknown.forget(zip(works, outcomes).lazy.filter { !$0.1.isWaiting }.compactMap(\.0.key))
        let records = zip(works, outcomes).filter { $0.1 == .done }.flatMap(\.0.records)
        self.deadLetters.forget(records)
        self.metrics.changesConsumed.increment(by: records.count)
        let now = self.now()
        // A record's timestamp comes from its producer: if it is missing or before 1970, it says nothing.
        for record in records where record.timestampMilliseconds >= 0 {
            self.metrics.age.recordMilliseconds(max(0, now - record.timestampMilliseconds))
        }
    }
}

extension BatchOutcomes {
    /// Returns the drafts that go on.
    func open(_ drafts: [OrderDraft]) -> [OrderDraft] { drafts.filter { !self.isPostponed($0.place) } }
}

/// Counts and logs what became of the changes of orders that are done.
struct ChangeAccount: Sendable {
    let metrics: PackagerMetrics
    let logger: Logger

    func count(_ drafts: [OrderDraft]) {
        for draft in drafts {
            for outcome in draft.result.outcomes {
                switch outcome {
                case .applied: self.metrics.changesApplied.increment()
                case .unchanged: self.metrics.changesUnchanged.increment()
                case .skipped(let reason): self.metrics.changesSkipped[reason]?.increment()
                case .refused: break
                }
            }
            self.metrics.changesConflated.increment(by: draft.conflatedCount)
            if draft.exists {
                self.metrics.earlyApplied.increment(
                    by: draft.result.outcomes.prefix(draft.order.waited).count(where: \.isTaken))
            }
            if draft.result.lacks.isEmpty, !draft.result.withheld.isEmpty {
                self.logger.notice(
                    "incomplete elements are hidden",
                    metadata: ["order": "\(draft.key)", "elements": "\(draft.result.withheld.listed(separator: "; "))"]
                        .traced(draft.traces.first))
            }
            if let package = draft.package { self.metrics.guidelines.count(package, of: draft.key.orderType) }
            guard let omitted = draft.package?.omittedFiles, !omitted.isEmpty else { continue }
            self.metrics.filesOmitted.increment(by: omitted.count)
            self.logger.warning(
                "files left out of a package",
                metadata: ["order": "\(draft.key)", "files": "\(omitted.listed())"]
                    .traced(draft.traces.first))
        }
    }
}

/// The moments of a batch's work that the spans of its orders show. The steps of a batch are done for all of its orders
/// together, so their spans have the same times.
struct BatchMoments: Sendable {
    /// Nanoseconds since 1970.
    let start: Int64
    private(set) var events: [(name: String, nanoseconds: Int64)] = []

    init(start: Int64 = TraceSpan.now) { self.start = start }

    /// Notes that a step ended.
    mutating func ended(_ step: ChangeStep, at now: Int64 = TraceSpan.now) {
        self.events.append((step.rawValue, now))
    }

    /// Returns the span of an order whose work ended with the last step; nil if no trace of it is recorded.
    func span(of draft: OrderDraft, _ outcome: KeyedWork.Outcome) -> TraceSpan? {
        let contexts = draft.traces
        guard !contexts.isEmpty, let end = self.events.last?.nanoseconds else { return nil }
        let isDone = outcome == .done
        var attributes: [(name: String, value: JSON)] = [
            ("waybill.order_type", .string(draft.key.orderType.rawValue)),
            ("waybill.outcome", .string(isDone ? draft.effectName : outcome.isWaiting ? "waits" : "retried")),
        ]
        if let version = draft.state?.version { attributes.append(("waybill.version", .integer(version))) }
        return TraceSpan(
            "waybill.package", .consumer, of: contexts, from: self.start, to: end, attributes: attributes,
            events: self.events, isError: !isDone && !outcome.isWaiting)
    }
}

extension OrderDraft {
    /// The effect of its changes, as spans name it.
    fileprivate var effectName: String {
        switch self.result.effect {
        case .changed: "published"
        case .removed: "removed"
        case .advanced, .none: self.needsPublishing ? "announced" : "unchanged"
        }
    }
}

/// The work of one batch, decoded: one order for each key.
struct ChangeBatch {
    /// The availability of an order type's brand.
    enum BrandAvailability: Hashable, Sendable {
        /// Its brand is loaded.
        case served
        /// There is a brand that cannot be loaded now, for this reason.
        case awaited(String)
        /// There is no brand.
        case unknown
    }

    private(set) var orders: [BatchOrder] = []
    private(set) var refused: [RefusedRecord] = []
    /// Work that must wait for a brand, and why.
    private(set) var awaiting: [(place: Int, reason: String)] = []

    /// - Parameter availability: returns the availability of an order type's brand, the same during the call.
    init(_ works: [KeyedWork], availability: (OrderTypeIdentifier) -> BrandAvailability) {
        for (place, work) in works.enumerated() {
            // One key names one order: a change whose subject differs from its key is refused.
            var changes: [BatchOrder.Change] = []
            var reason: String?
            for record in work.records {
                RecordTrap.decoding(record)
                do throws(ChangeFault) {
                    let change = try OrderChange.decode(
                        key: record.key, value: record.value, headers: record.headers.map { ($0.name, $0.value) })
                    switch availability(change.key.orderType) {
                    case .served: changes.append((record, change))
                    case .awaited(let why): reason = why
                    case .unknown:
                        throw ChangeFault(
                            code: .unknownOrderType,
                            reason: "no brand is loaded for order type \(change.key.orderType): "
                                + "add one or correct the key")
                    }
                } catch {
                    self.refused.append(RefusedRecord(place: place, record: record, fault: error))
                }
            }
            if let reason {
                self.awaiting.append((place, reason))
            } else if let key = changes.first?.change.key {
                self.orders.append(BatchOrder(place: place, key: key, changes: changes))
            }
        }
    }
}
