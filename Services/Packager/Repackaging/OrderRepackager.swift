import FoundationEssentials
import Kafka
import Model
import Packaging
import Store

/// Packages stored orders again with their present brands, without a change from upstream.
///
/// May run in any process alongside the packagers, which own the orders' partitions: each write is a compare-and-set on
/// the revision, and a version is announced until the record that was published last is of the stored version. A
/// removed order is never brought back.
///
/// Trying again is safe at any point. A version whose announcement was interrupted is marked in Redis, so the next
/// attempt announces it.
struct OrderRepackager: Sendable {
    /// The most times that an order is read again because another process wrote it in between.
    private static let conflictLimit = 10

    /// The outcome for one order.
    enum Outcome: Hashable, Sendable {
        /// It is stored as it would be packaged now.
        case current
        /// Signed under the same version, again or for the first time. Source: Wallet Orders §7: a renewal needs no
        /// change on devices
        case signed
        /// A new version, announced.
        case renewed
        /// There is no such order, or it is removed, or its brand is not loaded.
        case absent
        /// It cannot be packaged with the present brand, or its data in Redis is damaged; nothing was written.
        case refused(String)
        /// It cannot be read, signed, written or announced now, and another attempt may succeed.
        case postponed(String)

        /// The participle and the reason of an order on which nothing was done.
        var complaint: (what: String, reason: String)? {
            switch self {
            case .refused(let reason): ("refused", reason)
            case .postponed(let reason): ("postponed", reason)
            case .current, .signed, .renewed, .absent: nil
            }
        }
    }

    let topics: Topics
    var store: OrderStore
    /// Nil if nothing is written.
    let producer: KafkaProducer?
    /// The brands' packagers as they are now.
    let packagers: @Sendable () -> [OrderTypeIdentifier: OrderPackager]
    /// The source of pictures that orders name by URL; nil leaves them out.
    var pictureIndex: PictureIndex?
    /// Milliseconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }

    /// Packages orders again where that makes a difference.
    ///
    /// - Parameters:
    ///   - keys: each once; a few dozen, since their packages are in memory together.
    ///   - evenIfCurrent: true to sign up-to-date orders too.
    ///   - isDryRun: true to only report what would be done.
    /// - Returns: one outcome per key, in order.
    /// - Throws: `StoreError`, `RetriableFailure` if Redis or Kafka is unavailable, `PackagingError` `.signing`.
    func repackage(
        _ keys: [OrderKey], evenIfCurrent: Bool = false, isDryRun: Bool = false
    ) async throws -> [Outcome] {
        let job = Job(isDryRun: isDryRun) { (packager, draft, pictures, seconds) throws(PackagingError) in
            try packager.renew(
                draft, pictures: pictures, evenIfCurrent: evenIfCurrent, nowEpochSeconds: seconds)
        }
        var outcomes = keys.map { _ in Outcome.absent }
        let cold = try await self.run(keys, job, &outcomes)
        for page in OrderStore.pages(cold.map { (item: $0.order, bytes: $0.bytes) }) {
            try await self.run(page, job, &outcomes)
        }
        return outcomes
    }

    /// An order whose package is asked for and that Kafka has.
    struct ColdRequest: Sendable {
        let order: BatchOrder
        let partition: Int32
        /// Those of its record.
        let bytes: Int
    }

    /// Makes the packages of orders that have none, and publishes nothing.
    ///
    /// An order that cannot be packaged fails alone.
    /// - Returns: the outcomes; `.current` for an order that has a package. Those that are cold are not read.
    /// - Throws: `StoreError` if Redis is unavailable.
    func package(warm keys: [OrderKey]) async throws -> (outcomes: [(OrderKey, Outcome)], cold: [ColdRequest]) {
        var outcomes = keys.map { _ in Outcome.absent }
        let cold = try await self.run(keys, Self.requested, &outcomes)
        let left = Set(cold.map(\.order.place))
        return (zip(keys, outcomes).enumerated().filter { !left.contains($0.offset) }.map(\.element), cold)
    }

    /// Does the same for cold orders.
    func package(cold requests: [ColdRequest]) async throws -> [(OrderKey, Outcome)] {
        let orders = requests.enumerated().map { BatchOrder(place: $0, key: $1.order.key) }
        var outcomes = orders.map { _ in Outcome.absent }
        for page in OrderStore.pages(zip(orders, requests).map { (item: $0, bytes: $1.bytes) }) {
            try await self.run(page, Self.requested, &outcomes)
        }
        return Array(zip(orders.map(\.key), outcomes))
    }

    private typealias Make =
        @Sendable (OrderPackager, OrderDraft, OrderPackager.Shown, Int64) throws(PackagingError) -> OrderDraft

    /// The work on each order.
    private struct Job: Sendable {
        var isDryRun = false
        /// True if an order fails alone whatever the reason, and nothing is announced: a store without a view may have
        /// a version that is not the last one.
        var isRequested = false
        let make: Make
    }

    private static let requested = Job(isRequested: true) {
        (packager, draft, pictures, seconds) throws(PackagingError) in
        try packager.answer(draft, pictures: pictures, nowEpochSeconds: seconds)
    }

    /// Works on orders, the large ones page by page.
    ///
    /// - Returns: the cold ones, on which nothing was done.
    private func run(_ keys: [OrderKey], _ job: Job, _ outcomes: inout [Outcome]) async throws -> [ColdRequest] {
        let begun = PackagingStart.now
        let orders = keys.enumerated().map { BatchOrder(place: $0, key: $1) }
        var read: [(BatchOrder, Result<OrderStore.Entry, StoreError>)] = []
        var large: [(item: BatchOrder, bytes: Int)] = []
        var cold: [ColdRequest] = []
        for (order, sight) in zip(orders, try await self.store.look(at: keys)) {
            switch sight {
            case .read(let result):
                if let record = sight.coldRecord {
                    cold.append(ColdRequest(order: order, partition: record.partition, bytes: record.bytes))
                } else {
                    read.append((order, result))
                }
            case .large(let bytes): large.append((order, bytes))
            }
        }
        try await self.run(read, begun, job, &outcomes)
        for page in OrderStore.pages(large) { try await self.run(page, job, &outcomes) }
        return cold
    }

    private func run(_ page: [BatchOrder], _ job: Job, _ outcomes: inout [Outcome]) async throws {
        let begun = PackagingStart.now
        let entries = try await self.store.eachEntry(page.map(\.key))
        try await self.run(Array(zip(page, entries)), begun, job, &outcomes)
    }

    /// Works on orders that are read, and reads those again that other processes write in between.
    private func run(
        _ read: [(BatchOrder, Result<OrderStore.Entry, StoreError>)], _ begun: PackagingStart, _ job: Job,
        _ outcomes: inout [Outcome]
    ) async throws {
        var (open, begun) = (read, begun)
        for _ in 0..<Self.conflictLimit {
            guard !open.isEmpty else { return }
            let conflicts = try await self.attempt(open, begun, job, &outcomes)
            let again = open.map(\.0).filter { conflicts.contains($0.place) }
            begun = PackagingStart.now
            open = Array(zip(again, try await self.store.eachEntry(again.map(\.key))))
        }
        guard !open.isEmpty else { return }
        let failure = RetriableFailure(
            description: "repackaging \(open.count) orders: another writer keeps changing them",
            origin: FailureOrigin(.redis, .order))
        guard job.isRequested else { throw failure }
        for (order, _) in open { outcomes[order.place] = .postponed(failure.description) }
    }

    /// - Returns: the places of the orders that another process wrote in between.
    private func attempt(
        _ read: [(BatchOrder, Result<OrderStore.Entry, StoreError>)], _ begun: PackagingStart, _ job: Job,
        _ outcomes: inout [Outcome]
    ) async throws -> Set<Int> {
        let seconds = self.now() / 1000
        let packagers = self.packagers()
        var drafts: [OrderDraft] = []
        for (order, result) in read {
            outcomes[order.place] = .absent
            switch result.map(\.order) {
            case .success(let stored):
                guard let stored, let packager = packagers[order.key.orderType] else { continue }
                drafts.append(OrderDraft(order, read: stored, pictures: packager.pictures(of: stored.state)))
            case .failure(let error):
                guard error.isOfOneOrder else { throw error }
                outcomes[order.place] = Outcome(error.message, error.origin)
            }
        }
        let found = try await self.pictureIndex?.find(for: drafts, nowEpochSeconds: seconds) ?? PictureIndex.Found()
        let made = await onAllCores(drafts) { draft -> Result<OrderDraft, PackagingError> in
            guard let packager = packagers[draft.key.orderType] else { return .success(draft) }
            return Result { () throws(PackagingError) in
                try job.make(packager, draft, found.shown(to: draft.key), seconds)
            }
        }
        drafts = try zip(drafts, made).compactMap { (draft, result) -> OrderDraft? in
            if case .failure(let error) = result, job.isRequested {
                outcomes[draft.place] = Outcome(error.message, error.origin)
                return nil
            }
            return try result.get()
        }
        for draft in drafts { outcomes[draft.place] = Outcome(draft) }
        if job.isDryRun { return [] }
        try await self.pictureIndex?.note(drafts, found, nowEpochSeconds: seconds)
        let conflicts = try await self.write(drafts, packagers, begun, job, &outcomes)
        if !job.isRequested { try await self.announce(drafts.filter { !conflicts.contains($0.place) }, &outcomes) }
        return conflicts
    }

    /// - Returns: the places of the orders that another process wrote in between.
    private func write(
        _ drafts: [OrderDraft], _ packagers: [OrderTypeIdentifier: OrderPackager], _ begun: PackagingStart, _ job: Job,
        _ outcomes: inout [Outcome]
    ) async throws -> Set<Int> {
        try await self.store.putAssets(packagers.assets(of: drafts))
        var conflicts: Set<Int> = []
        let changed = drafts.filter { $0.write != nil }
        for (draft, outcome) in zip(changed, try await self.store.write(changed.compactMap(\.write), begun: begun)) {
            switch outcome {
            case .written: break
            case .conflict: conflicts.insert(draft.place)
            case .refused(let message):
                let failure = RetriableFailure(
                    description: "writing order \(draft.key): \(message)", origin: FailureOrigin(.redis, .order))
                guard job.isRequested else { throw failure }
                outcomes[draft.place] = .postponed(failure.description)
            }
        }
        return conflicts
    }

    /// Publishes the versions that were written here and those whose announcement was interrupted earlier.
    private func announce(_ drafts: [OrderDraft], _ outcomes: inout [Outcome]) async throws {
        let wanted = drafts.filter { $0.result.effect == .changed || $0.stored?.unpublished.isEmpty == false }
        let unread = try await VersionPublisher(topics: self.topics, store: self.store, producer: self.producer)
            .announce(wanted.map(\.key))
        for draft in wanted { if let reason = unread[draft.key] { outcomes[draft.place] = .postponed(reason) } }
    }
}

extension [OrderRepackager.Outcome] {
    /// Returns the orders for which another attempt may succeed.
    func postponed(of keys: [OrderKey]) -> Set<OrderKey> {
        Set(zip(keys, self).filter { if case .postponed = $0.1 { true } else { false } }.map(\.0))
    }
}

extension OrderRepackager.Outcome {
    fileprivate init(_ reason: String, _ origin: FailureOrigin) {
        self = origin.isRetriable ? .postponed(reason) : .refused(reason)
    }

    fileprivate init(_ draft: OrderDraft) {
        if draft.state?.isRemoved == true {
            self = .absent
        } else if let refusal = draft.refusal {
            self = .refused(refusal)
        } else if draft.package == nil {
            self = .current
        } else {
            self = draft.result.effect == .changed ? .renewed : .signed
        }
    }
}
