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
        try await self.run(keys, isDryRun: isDryRun) { (packager, draft, pictures, seconds) throws(PackagingError) in
            try packager.renew(
                draft, pictures: pictures, evenIfCurrent: evenIfCurrent, nowEpochSeconds: seconds)
        }
    }

    /// Makes the packages of orders that have none.
    ///
    /// - Returns: as `repackage`; `.current` for an order that has a package.
    /// - Throws: as `repackage`.
    func package(requested keys: [OrderKey]) async throws -> [Outcome] {
        try await self.run(keys, isDryRun: false) { (packager, draft, pictures, seconds) throws(PackagingError) in
            try packager.answer(draft, pictures: pictures, nowEpochSeconds: seconds)
        }
    }

    private func run(
        _ keys: [OrderKey], isDryRun: Bool,
        _ make:
            @escaping @Sendable (OrderPackager, OrderDraft, OrderPackager.Shown, Int64) throws(PackagingError) ->
            OrderDraft
    ) async throws -> [Outcome] {
        var outcomes = keys.map { _ in Outcome.absent }
        var open = keys.enumerated().map { BatchOrder(place: $0, key: $1) }
        var round = 0
        while !open.isEmpty {
            round += 1
            guard round <= Self.conflictLimit else {
                throw RetriableFailure(
                    description: "repackaging \(open.count) orders: another writer keeps changing them")
            }
            let begun = PackagingStart.now
            let seconds = self.now() / 1000
            let packagers = self.packagers()
            var drafts: [OrderDraft] = []
            for (order, result) in zip(open, try await self.store.orders(open.map(\.key))) {
                outcomes[order.place] = .absent
                switch result {
                case .success(let stored):
                    guard let stored, let packager = packagers[order.key.orderType] else { continue }
                    drafts.append(OrderDraft(order, read: stored, pictures: packager.pictures(of: stored.state)))
                case .failure(let error):
                    guard error.isOfOneOrder else { throw error }
                    outcomes[order.place] = .refused(error.message)
                }
            }
            let found = try await self.pictureIndex?.find(for: drafts, nowEpochSeconds: seconds) ?? PictureIndex.Found()
            drafts = try await onAllCores(drafts) { draft in
                guard let packager = packagers[draft.key.orderType] else { return draft }
                return try make(packager, draft, found.shown[draft.key.orderType] ?? [:], seconds)
            }
            for draft in drafts { outcomes[draft.place] = Outcome(draft) }
            if isDryRun { break }
            try await self.pictureIndex?.note(drafts, found, nowEpochSeconds: seconds)
            let conflicts = try await self.write(drafts, packagers, begun)
            try await self.announce(drafts.filter { !conflicts.contains($0.place) })
            open = drafts.map(\.order).filter { conflicts.contains($0.place) }
        }
        return outcomes
    }

    /// - Returns: the places of the orders that another process wrote in between.
    private func write(
        _ drafts: [OrderDraft], _ packagers: [OrderTypeIdentifier: OrderPackager], _ begun: PackagingStart
    ) async throws -> Set<Int> {
        try await self.store.putAssets(packagers.assets(of: drafts))
        var conflicts: Set<Int> = []
        let changed = drafts.filter { $0.write != nil }
        for (draft, outcome) in zip(changed, try await self.store.write(changed.compactMap(\.write), begun: begun)) {
            switch outcome {
            case .written: break
            case .conflict: conflicts.insert(draft.place)
            case .refused(let message):
                throw RetriableFailure(description: "writing order \(draft.key): \(message)")
            }
        }
        return conflicts
    }

    /// Publishes the versions that were written here and those whose announcement was interrupted earlier.
    private func announce(_ drafts: [OrderDraft]) async throws {
        let wanted = drafts.filter { $0.result.effect == .changed || $0.stored?.unpublished.isEmpty == false }
        try await VersionPublisher(topics: self.topics, store: self.store, producer: self.producer)
            .announce(wanted.map(\.key))
    }
}

extension OrderRepackager.Outcome {
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
