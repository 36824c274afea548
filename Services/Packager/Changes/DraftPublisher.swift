import CoreMetrics
import Kafka
import Model
import Operations
import Store
import Synchronization

/// Step 6: publishes each new version to `waybill.orders`, and again one whose publication may have been lost, and ends
/// the registrations of removed orders, at each of their removals.
struct DraftPublisher: Sendable {
    let topics: Topics
    let store: OrderStore
    let registrations: Registrations
    let producer: KafkaProducer
    let recordLimit: RecordLimit
    let metrics: PackagerMetrics

    /// A draft whose record was acknowledged.
    private typealias PublishedDraft = (draft: OrderDraft, state: OrderState, record: PublishedRecord?)

    /// Publishes drafts that are written.
    func publish(
        _ open: [OrderDraft], nowEpochMilliseconds: Int64, _ outcomes: inout BatchOutcomes
    ) async {
        let started = ContinuousClock.now
        await self.noteParcels(of: open.filter(\.needsPublishing), &outcomes)
        let fresh = outcomes.open(open).filter(\.needsPublishing)
        let messages = fresh.map { draft in
            KafkaMessage(
                topic: self.topics.orders, key: Array(draft.key.description.utf8), value: draft.published,
                headers: draft.headers)
        }
        let answers = await self.producer.produce(messages)
        let cluster = self.producer.cluster
        var published: [PublishedDraft] = []
        for (draft, (message, answer)) in zip(fresh, zip(messages, answers)) {
            let size = message.value?.count ?? 0
            switch answer {
            case .success(let position):
                self.recordLimit.taken(size)
                guard let state = draft.state else { continue }
                published.append((draft, state, PublishedRecord(message, at: position, in: cluster, of: state)))
            case .failure(let error):
                if error.code == .messageTooLarge, size > 0 { self.recordLimit.refused(size) }
                outcomes.postpone(draft.place, "publishing to \(self.topics.orders): \(error.message)")
            }
        }
        CrashPoint.reached(.published)
        await self.republishOvertaken(published, &outcomes)
        // Last, since it may take longest. After a failure in between, the next attempt finds the registrations that
        // are left.
        let endings = RegistrationCleanup(
            topics: self.topics, store: self.store, registrations: self.registrations, producer: self.producer)
        // Of an order without a state nothing was published.
        let again = open.filter { $0.state == nil && $0.removesAgain }
        await endings.end(
            ofRemoved: outcomes.open(published.map(\.draft) + again), now: nowEpochMilliseconds, &outcomes)
        CrashPoint.reached(.unregistered)
        self.metrics.ended(.publish, since: started)
    }

    /// Notes the parcels of versions that were written before: a crash, or a full Redis, may have kept them from being
    /// noted. Those of a new version were noted when it was written.
    private func noteParcels(of drafts: [OrderDraft], _ outcomes: inout BatchOutcomes) async {
        let again = drafts.filter { $0.exists && $0.result.effect != .changed }
        guard !again.isEmpty else { return }
        do {
            for (draft, refusal) in zip(again, try await self.store.parcels.note(again.map(\.state))) {
                guard let refusal else { continue }
                outcomes.postpone(draft.place, "noting the parcels of order \(draft.key): \(refusal)")
            }
        } catch {
            outcomes.postpone(again.map(\.place), "\(error)")
        }
    }

    /// Makes sure that the last record of each order is of the version in Redis.
    ///
    /// A worker that stalled between its write and its publication may have lost its partition in the meantime; its
    /// record then follows that of a later version, and a compacted topic would keep the wrong one. So the stored
    /// version is read after each acknowledgement, and published if it is another one by now. Its writer does the same,
    /// so the last record is the right one.
    private func republishOvertaken(
        _ published: [PublishedDraft], _ outcomes: inout BatchOutcomes
    ) async {
        guard !published.isEmpty else { return }
        do {
            let standing = try await self.store.notePublished(
                published.map { draft, state, record in
                    .init(
                        state, record: record, isAnnounced: draft.completesPublication,
                        isRequested: draft.result.isAnnounced || draft.stored?.isToAnnounce == true)
                })
            let overtaken = zip(published, standing).filter { $0.state.version != $1 }.map(\.0.draft.key)
            guard !overtaken.isEmpty else { return }
            self.metrics.overtaken.increment(by: overtaken.count)
            let unread = try await VersionPublisher(topics: self.topics, store: self.store, producer: self.producer)
                .announce(overtaken)
            for (draft, _, _) in published {
                if let reason = unread[draft.key] { outcomes.postpone(draft.place, reason) }
            }
        } catch {
            outcomes.postpone(published.map(\.draft.place), "\(error)")
        }
    }
}

/// The largest record that the topic of orders accepts, as far as known: the producer's limit, lowered by what brokers
/// refused. A version with a larger record is never written, since it could not be published.
final class RecordLimit: Sendable {
    /// The most bytes that Kafka adds to a record's value: key, headers and the batch around it.
    private static let overhead = 1024

    private let producer: Int
    private let bytes: Atomic<Int>

    /// - Parameter producer: `message.max.bytes` of the producer.
    init(producer: Int) {
        self.producer = max(0, producer - Self.overhead)
        self.bytes = Atomic(self.producer)
    }

    /// The most bytes of a record's value.
    var value: Int { self.bytes.load(ordering: .relaxed) }

    /// Lowers the limit after a record was refused for its size.
    func refused(_ size: Int) {
        let limit = self.value
        if size - Self.overhead < limit { self.bytes.store(max(0, size - Self.overhead), ordering: .relaxed) }
    }

    /// Resets the limit if a record above it was accepted: the record was made earlier, and the topic accepts more by
    /// now.
    func taken(_ size: Int) {
        if size > self.value { self.bytes.store(self.producer, ordering: .relaxed) }
    }
}
