import CoreMetrics
import FoundationEssentials
import Kafka
import Logging
import Model
import Operations
import Packaging
import Store

/// Processes a batch of changes, up to the acknowledgement of everything that is published, and gives each order an
/// outcome: a failure of one order delays no other.
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
    /// Returns true if the orders of a type are still to be restored; its changes wait until then, whatever its brand.
    var isRestoring: @Sendable (OrderTypeIdentifier) -> Bool = { _ in false }
    /// Confirms that the work is in the view that is served; nil skips the check.
    var view: ViewEpochCache?
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
    /// - Returns: one outcome for each piece of work, in order.
    func process(_ works: [KeyedWork]) async -> [KeyedWork.Outcome] {
        let batch = ChangeBatch(works) { type in
            if self.isRestoring(type) {
                return .awaited(self.awaited(type) ?? "the orders of \(type) are still to be restored")
            }
            if self.packagers[type] != nil { return .served }
            return self.awaited(type).map { .awaited($0) } ?? .unknown
        }
        var batchOutcomes = BatchOutcomes(count: works.count)
        CrashPoint.reached(.batchTaken)
        for (place, reason) in batch.awaiting { batchOutcomes.postpone(place, reason) }
        await self.deadLetters.send(batch.refused, &batchOutcomes)
        var open = batch.orders.filter { !batchOutcomes.isPostponed($0.place) }
        for _ in 0..<Self.conflictLimit where !open.isEmpty { open = await self.advance(open, &batchOutcomes) }
        batchOutcomes.postpone(open.map(\.place), "writing an order: another worker keeps writing it")
        let outcomes = batchOutcomes.outcomes
        self.unknown.forget(zip(works, outcomes).lazy.filter { !$0.1.isWaiting }.compactMap(\.0.key))
        self.account(for: zip(works, outcomes).filter { $0.1 == .done }.flatMap(\.0.records))
        return outcomes
    }

    /// Takes orders through steps 1 to 6: first all whose documents are small, then the others page by page, so that
    /// memory use does not grow with the documents in Redis.
    ///
    /// - Returns: those that another worker wrote in between.
    private func advance(_ orders: [BatchOrder], _ batchOutcomes: inout BatchOutcomes) async -> [BatchOrder] {
        var conflicts: [BatchOrder] = []
        var large: [(item: BatchOrder, bytes: Int)] = []
        do {
            let begun = try await self.begin()
            let started = ContinuousClock.now
            var small: [Seen] = []
            var early: [(order: BatchOrder, removed: OrderStore.StoredOrder?)] = []
            let sights = try await self.store.look(at: orders.map(\.key))
            self.metrics.ended(.read, since: started)
            for (order, sight) in zip(orders, sights) {
                switch sight {
                case .read(let result): small.append((order.withoutLetters, result))
                case .early(let removed): early.append((order.withoutLetters, removed))
                case .large(let bytes): large.append((order.withoutLetters, bytes))
                }
            }
            small += zip(await self.withLetters(early.map(\.order), &batchOutcomes), early)
                .map { ($0, .success($1.removed)) }
            if !small.isEmpty { conflicts += await self.advance(small, begun, &batchOutcomes) }
            for page in OrderStore.pages(large) {
                let begun = try await self.begin()
                let read = try await self.store.eachOrder(page.map(\.key))
                conflicts += await self.advance(Array(zip(page, read)), begun, &batchOutcomes)
                large.removeFirst(page.count)
            }
        } catch {
            // Orders that were processed keep their outcomes; of the rest nothing was read.
            let rest = conflicts.isEmpty && large.isEmpty ? orders : large.map(\.item)
            batchOutcomes.postpone(rest.map(\.place), "\(error)")
        }
        return conflicts
    }

    /// An order with the result of reading it.
    private typealias Seen = (order: BatchOrder, result: Result<OrderStore.StoredOrder?, StoreError>)

    /// The start time and the epochs that hold for orders that are read next.
    private struct Begun {
        let at = PackagingStart.now
        let epochs: MaterializedView.Epochs?
        /// Nil while no spans are made.
        let moments: BatchMoments?
    }

    private func begin() async throws(StoreError) -> Begun {
        Begun(epochs: try await self.view?.known(), moments: self.spans.map { _ in BatchMoments() })
    }

    private func advance(
        _ sights: [Seen], _ begun: Begun, _ batchOutcomes: inout BatchOutcomes
    ) async -> [BatchOrder] {
        var moments = begun.moments
        moments?.ended(.read)
        let (readable, corrupt) = self.sort(sights, &batchOutcomes)
        let bytes = readable.reduce(0) { $0 + ($1.1?.documentBytes ?? 0) }
        self.load.add(bytes)
        defer { self.load.add(-bytes) }
        CrashPoint.reached(.statesRead)
        var open = await self.package(readable, &batchOutcomes)
        let drafts = open
        moments?.ended(.sign)
        CrashPoint.reached(.signed)
        let come = await self.deferEarly(&open, &batchOutcomes)
        // Before the write, which advances orders past these changes: a dead letter that failed after it would be lost,
        // since the next attempt takes its change for a redelivery.
        await self.deadLetters.send(corrupt + open.flatMap(\.refused), &batchOutcomes)
        CrashPoint.reached(.deadLettersSent)
        open.removeAll { batchOutcomes.isPostponed($0.place) }
        await self.note(open, &batchOutcomes)
        open.removeAll { batchOutcomes.isPostponed($0.place) }
        var started = ContinuousClock.now
        let conflicts = await self.write(open, begun, &batchOutcomes).union(come)
        self.metrics.ended(.write, since: started)
        moments?.ended(.write)
        open.removeAll { batchOutcomes.isPostponed($0.place) || conflicts.contains($0.place) }
        started = .now
        await self.publish(open, &batchOutcomes)
        self.metrics.ended(.publish, since: started)
        moments?.ended(.publish)
        do {
            // A view that was lost since then is restored from what was published before the loss: this may be missing.
            if let epochs = begun.epochs { try await self.view?.confirm(epochs) }
        } catch {
            batchOutcomes.postpone(open.map(\.place), "\(error)")
        }
        open.removeAll { batchOutcomes.isPostponed($0.place) }
        await self.forgetLetters(of: open)
        for draft in open where draft.result.effect == .removed && !draft.early.isEmpty {
            batchOutcomes.wait(draft.place, .zero)
        }
        self.account(for: open)
        if let spans = self.spans, let moments {
            for draft in drafts where !conflicts.contains(draft.place) {
                spans.record(moments.span(of: draft, batchOutcomes.outcomes[draft.place]))
            }
        }
        self.metrics.conflicts.increment(by: conflicts.count)
        return sights.map(\.order).filter { conflicts.contains($0.place) }
    }

    /// Separates readable orders from damaged ones, whose changes become dead letters.
    private func sort(
        _ sights: [Seen], _ batchOutcomes: inout BatchOutcomes
    ) -> (readable: [(BatchOrder, OrderStore.StoredOrder?)], corrupt: [RefusedRecord]) {
        var corrupt: [RefusedRecord] = []
        var readable: [(BatchOrder, OrderStore.StoredOrder?)] = []
        for (order, result) in sights {
            switch result {
            case .success(let stored): readable.append((order, stored))
            case .failure(let error) where error.code == .corrupt:
                let fault = ChangeFault(
                    code: .corruptState,
                    reason: "\(error.message); repair or remove the order in Redis, then publish the change again"
                )
                corrupt += order.changes.map {
                    RefusedRecord(place: order.place, record: $0.record, fault: fault)
                }
            case .failure(let error): batchOutcomes.postpone(order.place, error.message)
            }
        }
        return (readable, corrupt)
    }

    /// Writes the changed orders.
    ///
    /// - Returns: the places of the orders that another worker wrote in between.
    private func write(
        _ open: [OrderDraft], _ begun: Begun, _ batchOutcomes: inout BatchOutcomes
    ) async -> Set<Int> {
        var conflicts: Set<Int> = []
        var writes: [(place: Int, write: OrderStore.Write)] = []
        for draft in open { if let write = draft.write { writes.append((draft.place, write)) } }
        do {
            let refused = try await self.store.putEachAsset(self.packagers.assets(of: open), under: begun.epochs)
            CrashPoint.reached(.assetsPut)
            // A full Redis refuses new assets and still accepts removals.
            if !refused.isEmpty { writes.removeAll { Self.lacks(refused, $0, &batchOutcomes) } }
            for (sent, outcome) in zip(writes, try await self.store.write(writes.map(\.write), begun: begun.at)) {
                switch outcome {
                case .written: break
                case .conflict: conflicts.insert(sent.place)
                case .refused(let message):
                    batchOutcomes.postpone(sent.place, "writing order \(sent.write.state.key): \(message)")
                }
            }
        } catch {
            // Some may be stored nevertheless: the next attempt finds and publishes them.
            batchOutcomes.postpone(writes.map(\.place), "\(error)")
        }
        CrashPoint.reached(.written)
        self.metrics.packagesBuilt.increment(by: open.count { $0.package != nil })
        return conflicts
    }

    /// Postpones an order whose package names an asset that Redis refused.
    private static func lacks(
        _ refused: [String: String], _ sent: (place: Int, write: OrderStore.Write), _ batchOutcomes: inout BatchOutcomes
    ) -> Bool {
        guard let message = sent.write.assets.lazy.compactMap({ refused[$0] }).first else { return false }
        batchOutcomes.postpone(sent.place, "writing an asset of order \(sent.write.state.key): \(message)")
        return true
    }

    /// Publishes each new version to `waybill.orders`, and again one whose publication may have been lost.
    private func publish(_ open: [OrderDraft], _ batchOutcomes: inout BatchOutcomes) async {
        var messages: [(place: Int, message: KafkaMessage)] = []
        let unpublished = open.filter { $0.needsPublishing && !$0.isAlreadyStored }
        for draft in unpublished {
            let message = KafkaMessage(
                topic: self.topics.orders, key: Array(draft.key.description.utf8), value: draft.record,
                headers: draft.headers)
            messages.append((draft.place, message))
        }
        let outcomes = await self.producer.produce(messages.map(\.message))
        for (draft, outcome) in zip(unpublished, outcomes) { self.learn(draft, outcome) }
        for (sent, outcome) in zip(messages, outcomes) {
            guard case .failure(let error) = outcome else { continue }
            batchOutcomes.postpone(sent.place, "publishing to \(sent.message.topic): \(error.message)")
        }
        CrashPoint.reached(.published)
        let published = unpublished.filter { !batchOutcomes.isPostponed($0.place) }
        await self.republishOvertaken(published, &batchOutcomes)
        await self.announce(open.filter(\.isAlreadyStored), &batchOutcomes)
        // Last, since it may take longest. After a failure in between, the next attempt finds the registrations that
        // are left.
        let endings = RegistrationCleanup(
            topics: self.topics, store: self.store, registrations: self.registrations, producer: self.producer)
        await endings.end(
            ofRemoved: published.filter { !batchOutcomes.isPostponed($0.place) }, now: self.now(), &batchOutcomes)
        CrashPoint.reached(.unregistered)
    }

    /// Adjusts the limit on records to the outcome of a publication.
    private func learn(_ draft: OrderDraft, _ outcome: Result<KafkaPosition, KafkaError>) {
        guard let size = draft.record?.count else { return }
        switch outcome {
        case .success: self.recordLimit.taken(size)
        case .failure(let error) where error.code == .messageTooLarge: self.recordLimit.refused(size)
        case .failure: break
        }
    }

    /// Makes sure that the last record of each order is of the version in Redis.
    ///
    /// A worker that stalled between its write and its publication may have lost its partition in the meantime; its
    /// record then follows that of a later version, and a compacted topic would keep the wrong one. So the stored
    /// version is read after each acknowledgement, and published if it is another one by now. Its writer does the same,
    /// so the last record is the right one.
    private func republishOvertaken(_ published: [OrderDraft], _ batchOutcomes: inout BatchOutcomes) async {
        guard !published.isEmpty else { return }
        do {
            let standing = try await self.store.notePublished(
                published.map { ($0.key, $0.completesPublication ? $0.state?.version : nil) })
            let overtaken = zip(published, standing).filter { $0.state?.version != $1 }.map(\.0.key)
            guard !overtaken.isEmpty else { return }
            self.metrics.overtaken.increment(by: overtaken.count)
            try await VersionPublisher(topics: self.topics, store: self.store, producer: self.producer)
                .announce(overtaken)
        } catch {
            batchOutcomes.postpone(published.map(\.place), "\(error)")
        }
    }

    /// Publishes the stored versions of orders whose publication may have been lost with a worker.
    private func announce(_ standing: [OrderDraft], _ batchOutcomes: inout BatchOutcomes) async {
        guard !standing.isEmpty else { return }
        do {
            try await VersionPublisher(topics: self.topics, store: self.store, producer: self.producer)
                .announce(
                    standing.map(\.key), silent: Set(standing.lazy.filter(\.result.isSilent).map(\.key)),
                    traces: Dictionary(standing.lazy.map { ($0.key, $0.traceHeaders) }) { first, _ in first })
        } catch {
            batchOutcomes.postpone(standing.map(\.place), "\(error)")
        }
    }

    /// Counts the outcomes of the changes.
    private func account(for drafts: [OrderDraft]) {
        for outcome in drafts.lazy.flatMap(\.result.outcomes) {
            switch outcome {
            case .applied: self.metrics.changesApplied.increment()
            case .unchanged: self.metrics.changesUnchanged.increment()
            case .skipped(let reason): self.metrics.changesSkipped[reason]?.increment()
            case .refused: break
            }
        }
        for draft in drafts {
            self.metrics.changesConflated.increment(by: draft.conflatedCount)
            let withheld = draft.result.withheld
            if !withheld.isEmpty {
                self.logger.notice(
                    "incomplete elements are hidden",
                    metadata: ["order": "\(draft.key)", "elements": "\(withheld.joined(separator: "; "))"]
                        .traced(draft.traces.first))
            }
            guard let omitted = draft.package?.omittedFiles, !omitted.isEmpty else { continue }
            self.metrics.filesOmitted.increment(by: omitted.count)
            self.logger.warning(
                "files left out of a package",
                metadata: ["order": "\(draft.key)", "files": "\(omitted.joined(separator: ", "))"]
                    .traced(draft.traces.first))
        }
    }

    /// Counts records that are done.
    private func account(for records: [KafkaRecord]) {
        self.deadLetters.forget(records)
        self.metrics.changesConsumed.increment(by: records.count)
        let now = self.now()
        // A record's timestamp comes from its producer: if it is missing or before 1970, it says nothing.
        for record in records where record.timestampMilliseconds >= 0 {
            self.metrics.age.recordMilliseconds(max(0, now - record.timestampMilliseconds))
        }
    }
}

/// Steps 2 to 4: folding, validating and signing on all cores.
extension ChangeProcessor {
    /// An order that is not packaged now, and the reason.
    private struct Postponement: Error {
        let place: Int
        let reason: String
    }

    /// Folds and packages orders; those with pictures from URLs after the others, with the pictures that are available.
    func package(
        _ orders: [(BatchOrder, OrderStore.StoredOrder?)], _ batchOutcomes: inout BatchOutcomes
    ) async -> [OrderDraft] {
        let seconds = self.now() / 1000
        let results = await onAllCores(orders) {
            [packagers, metrics, hasIndex = self.pictureIndex != nil, limit = self.recordLimit.value] order, stored in
            Self.attempt(order, packagers) { packager throws(PackagingError) in
                let began = ContinuousClock.now
                let draft = packager.fold(order, stored: stored, nowEpochSeconds: seconds)
                metrics.ended(.fold, since: began)
                CrashPoint.reached(.folded)
                // Its pictures have to be looked up first.
                if hasIndex, !draft.pictures.isEmpty { return draft }
                let folded = ContinuousClock.now
                defer { metrics.ended(.sign, since: folded) }
                return try packager.package(draft, recordBytes: limit, nowEpochSeconds: seconds)
            }
        }
        let drafts = Self.drafts(results, &batchOutcomes)
        guard let pictureIndex = self.pictureIndex, drafts.contains(where: { !$0.isPackaged }) else { return drafts }
        let (open, packaged) = (drafts.filter { !$0.isPackaged }, drafts.filter(\.isPackaged))
        do {
            let found = try await pictureIndex.find(for: open, nowEpochSeconds: seconds)
            let results = await onAllCores(open) { [packagers, metrics, limit = self.recordLimit.value] draft in
                let folded = ContinuousClock.now
                defer { metrics.ended(.sign, since: folded) }
                return Self.attempt(draft.order, packagers) { packager throws(PackagingError) in
                    try packager.package(
                        draft, pictures: found.shown[draft.key.orderType] ?? [:], recordBytes: limit,
                        nowEpochSeconds: seconds)
                }
            }
            let shown = Self.drafts(results, &batchOutcomes)
            try await pictureIndex.note(shown, found, nowEpochSeconds: seconds)
            return packaged + shown
        } catch {
            batchOutcomes.postpone(open.map(\.place), "\(error)")
            return packaged
        }
    }

    private static func attempt(
        _ order: BatchOrder, _ packagers: [OrderTypeIdentifier: OrderPackager],
        _ body: (OrderPackager) throws(PackagingError) -> OrderDraft
    ) -> Result<OrderDraft, Postponement> {
        guard let packager = packagers[order.key.orderType] else {
            return .failure(Postponement(place: order.place, reason: "its brand was removed"))
        }
        return Result { () throws(PackagingError) in try body(packager) }.mapError {
            Postponement(place: order.place, reason: "packaging order \(order.key): \($0)")
        }
    }

    /// - Returns: the drafts that were made; the other orders are postponed.
    private static func drafts(
        _ results: [Result<OrderDraft, Postponement>], _ batchOutcomes: inout BatchOutcomes
    ) -> [OrderDraft] {
        var drafts: [OrderDraft] = []
        for result in results {
            switch result {
            case .success(let draft): drafts.append(draft)
            case .failure(let postponement): batchOutcomes.postpone(postponement.place, postponement.reason)
            }
        }
        return drafts
    }
}
