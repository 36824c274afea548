import Foundation
import Kafka
import Model
import Packaging
import Store

/// Packages stored orders anew with their brands as they are now, without a change from upstream.
///
/// May run in any process beside the packagers, who own the orders' partitions: each write is a compare-and-set on the
/// revision, and a version is announced until the record that was published last is of the version that stands. An
/// order that was removed is never brought back.
///
/// Trying again is safe at any point. A version whose announcement was cut off is marked in Redis, so the next attempt
/// announces it.
struct OrderRepackager: Sendable {
    /// The number of times that an order is read again because somebody else wrote it in between.
    private static let conflictLimit = 10

    /// The outcome for one order.
    enum Outcome: Hashable, Sendable {
        /// It stands there as it would be packaged now.
        case current
        /// Signed anew under the same version. Source: Wallet Orders §7: a renewal needs no change on devices
        case signed
        /// A new version, announced.
        case renewed
        /// There is no such order, or it is removed, or its brand is not loaded.
        case absent
        /// It cannot be packaged with the brand as it is now, or what stands in Redis is damaged; nothing was written.
        case refused(String)
    }

    let topics: Topics
    let store: OrderStore
    /// Nil where nothing is written.
    let producer: KafkaProducer?
    /// The brands' packagers as they are now.
    let packagers: @Sendable () -> [OrderTypeIdentifier: OrderPackager]
    /// The source of pictures that orders name by URL; nil leaves them out.
    var pictureIndex: PictureIndex?
    /// Milliseconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }

    /// One order between reading and writing.
    private struct Plan: Sendable {
        let stored: OrderStore.StoredOrder
        let renewal: OrderRenewal
    }

    /// Packages some orders anew where that makes a difference.
    ///
    /// - Parameters:
    ///   - keys: each once; some dozens, since their packages are in memory at once.
    ///   - evenIfCurrent: sign also those that have nothing to gain from it.
    ///   - isDryRun: only say what would be done.
    /// - Returns: one outcome per key, in order.
    /// - Throws: `StoreError`, `RetriableFailure` when Redis or Kafka are away, `PackagingError` `.signing`.
    func repackage(
        _ keys: [OrderKey], evenIfCurrent: Bool = false, isDryRun: Bool = false
    ) async throws -> [Outcome] {
        var outcomes: [OrderKey: Outcome] = [:]
        var open = keys
        var round = 0
        while !open.isEmpty {
            round += 1
            guard round <= Self.conflictLimit else {
                throw RetriableFailure(
                    description: "packaging \(open.count) orders anew: somebody else keeps writing them")
            }
            let begun = PackagingStart.now
            let packagers = self.packagers()
            var plans: [Plan] = []
            for (key, result) in zip(open, try await self.store.orders(open)) {
                switch result {
                case .success(let stored?) where packagers[key.orderType] != nil:
                    plans.append(Plan(stored: stored, renewal: .current))
                case .success: outcomes[key] = .absent
                case .failure(let error):
                    guard error.code == .corrupt else { throw error }
                    outcomes[key] = .refused(error.message)
                }
            }
            let found = try await self.pictures(plans, packagers)
            plans = try await self.decide(plans, packagers, found, evenIfCurrent: evenIfCurrent)
            for plan in plans { outcomes[plan.stored.state.key] = Self.outcome(of: plan) }
            if isDryRun { break }
            try await self.notePictures(plans, packagers, found)
            let conflicts = try await self.write(plans, packagers, begun)
            try await self.announce(
                plans.map(\.stored.state.key).filter { !conflicts.contains($0) }, plans)
            open = plans.map(\.stored.state.key).filter { conflicts.contains($0) }
        }
        return keys.map { outcomes[$0] ?? .absent }
    }

    private static func outcome(of plan: Plan) -> Outcome {
        if plan.stored.state.isRemoved { return .absent }
        return switch plan.renewal {
        case .current: .current
        case .signature: .signed
        case .version: .renewed
        case .refused(let reason): .refused(reason)
        }
    }

    /// Compares, packages and signs on all cores.
    private func decide(
        _ plans: [Plan], _ packagers: [OrderTypeIdentifier: OrderPackager], _ found: PictureIndex.Found,
        evenIfCurrent: Bool
    ) async throws -> [Plan] {
        let seconds = self.now() / 1000
        return try await onAllCores(plans.map(\.stored)) { stored in
            // A removed order stays as it is, but its removal may have to be announced.
            guard !stored.state.isRemoved, let packager = packagers[stored.state.key.orderType] else {
                return Plan(stored: stored, renewal: .current)
            }
            return Plan(
                stored: stored,
                renewal: try packager.renew(
                    stored, pictures: found.shown[stored.state.key.orderType] ?? [:], evenIfCurrent: evenIfCurrent,
                    nowEpochSeconds: seconds))
        }
    }

    /// Looks up the pictures of orders that stand.
    private func pictures(
        _ plans: [Plan], _ packagers: [OrderTypeIdentifier: OrderPackager]
    ) async throws -> PictureIndex.Found {
        guard let pictureIndex = self.pictureIndex else { return PictureIndex.Found() }
        let keys = plans.flatMap { plan in
            let state = plan.stored.state
            guard let packager = packagers[state.key.orderType] else { return [PictureKey]() }
            return packager.pictureURLs(of: state).map { packager.pictureKey($0, of: state.key) }
        }
        return try await pictureIndex.find(Set(keys), nowEpochSeconds: self.now() / 1000)
    }

    /// Notes which pictures new packages lack.
    private func notePictures(
        _ plans: [Plan], _ packagers: [OrderTypeIdentifier: OrderPackager], _ found: PictureIndex.Found
    ) async throws {
        let packaged = plans.compactMap { plan -> PictureIndex.Packaged? in
            guard case .version(let state, let package) = plan.renewal else { return nil }
            return PictureIndex.Packaged(
                order: state.key, version: state.version,
                urls: packagers[state.key.orderType]?.pictureURLs(of: state) ?? [], missing: package.missingPictures,
                hosts: packagers[state.key.orderType]?.pictureHosts ?? .none)
        }
        try await self.pictureIndex?.note(packaged, found, nowEpochSeconds: self.now() / 1000)
    }

    /// - Returns: the orders that somebody else wrote in between.
    private func write(
        _ plans: [Plan], _ packagers: [OrderTypeIdentifier: OrderPackager], _ begun: PackagingStart
    ) async throws -> Set<OrderKey> {
        var assets: [String: [UInt8]] = [:]
        var writes: [OrderStore.Write] = []
        for plan in plans {
            let key = plan.stored.state.key
            let package: OrderPackage
            switch plan.renewal {
            case .current, .refused: continue
            case .signature(let signed):
                package = signed
                writes.append(
                    OrderStore.Write(
                        state: plan.stored.state, expectedRevision: plan.stored.revision,
                        content: .signature(OrderStore.StoredPackage(signed))))
            case .version(let state, let renewed):
                package = renewed
                writes.append(
                    OrderStore.Write(
                        state: state, expectedRevision: plan.stored.revision,
                        content: .unannouncedVersion(OrderStore.StoredPackage(renewed))))
            }
            for digest in package.assets where assets[digest.rawValue] == nil {
                assets[digest.rawValue] = packagers[key.orderType]?.entries[digest]
            }
        }
        try await self.store.putAssets(assets.map { ($0.key, $0.value) })
        var conflicts: Set<OrderKey> = []
        for (write, outcome) in zip(writes, try await self.store.write(writes, begun: begun)) {
            switch outcome {
            case .written: break
            case .conflict: conflicts.insert(write.state.key)
            case .refused(let message):
                throw RetriableFailure(description: "writing order \(write.state.key): \(message)")
            }
        }
        return conflicts
    }

    /// Publishes the versions that were written here and those whose announcement was cut off earlier.
    private func announce(_ keys: [OrderKey], _ plans: [Plan]) async throws {
        let wanted = Set(
            plans.filter { plan in
                if case .version = plan.renewal { return true }
                return !plan.stored.unannounced.isEmpty
            }.map(\.stored.state.key))
        try await VersionPublisher(topics: self.topics, store: self.store, producer: self.producer)
            .announce(keys.filter(wanted.contains))
    }
}
