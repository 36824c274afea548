import CoreMetrics
import Model
import Packaging
import Store

/// Steps 2 to 4: folds, validates and signs on all cores.
struct DraftMaker: Sendable {
    let packagers: [OrderTypeIdentifier: OrderPackager]
    let pictureIndex: PictureIndex?
    let recordLimit: RecordLimit
    let policy: PackagePolicy
    let metrics: PackagerMetrics

    /// Folds orders, and packages those that are packaged at once, with those of their pictures from URLs that are
    /// available.
    ///
    /// - Returns: the drafts that were made; the other orders are postponed.
    func drafts(
        of orders: [(BatchOrder, OrderStore.StoredOrder?)], nowEpochSeconds seconds: Int64,
        _ outcomes: inout BatchOutcomes
    ) async -> [OrderDraft] {
        let all = await self.each(orders, \.0, .fold, &outcomes) {
            [policy, limit = self.recordLimit.value] packager, order in
            defer { CrashPoint.reached(.folded) }
            return packager.fold(order.0, stored: order.1, nowEpochSeconds: seconds, recordBytes: limit) { result in
                policy.leavesPackage(after: order.1, isSilent: result.isSilent, nowEpochSeconds: seconds)
            }
        }
        let renewed = all.filter { !$0.result.renewedLinks.isEmpty }
        do {
            if !renewed.isEmpty {
                try await self.pictureIndex?.renew(renewed, nowEpochSeconds: seconds) { self.packagers[$0] }
            }
        } catch {
            outcomes.postpone(renewed.map(\.place), "\(error)")
        }
        let unpackaged = outcomes.open(all).filter { $0.record != nil }
        self.metrics.packagesLeft.increment(by: unpackaged.count)
        let folded = all.filter { $0.record == nil }
        let pictured = self.pictureIndex == nil ? [] : folded.filter { !$0.pictures.isEmpty }
        var found = PictureIndex.Found()
        do {
            if !pictured.isEmpty, let pictureIndex {
                found = try await pictureIndex.find(for: pictured, nowEpochSeconds: seconds)
            }
        } catch {
            outcomes.postpone(pictured.map(\.place), "\(error)")
        }
        let drafts = await self.each(outcomes.open(folded), \.order, .sign, &outcomes) {
            [found, limit = self.recordLimit.value] packager, draft throws(PackagingError) in
            try packager.package(
                draft, pictures: found.shown(to: draft.key), recordBytes: limit, nowEpochSeconds: seconds)
        }
        do {
            if !pictured.isEmpty { try await self.pictureIndex?.note(drafts, found, nowEpochSeconds: seconds) }
        } catch {
            outcomes.postpone(pictured.map(\.place), "\(error)")
        }
        return unpackaged + outcomes.open(drafts)
    }

    /// Takes a step with each order's packager, on all cores.
    private func each<Item: Sendable>(
        _ items: [Item], _ order: (Item) -> BatchOrder, _ step: ChangeStep, _ outcomes: inout BatchOutcomes,
        _ body: @escaping @Sendable (OrderPackager, Item) throws(PackagingError) -> OrderDraft
    ) async -> [OrderDraft] {
        let orders = items.map(order)
        let results = await onAllCores(Array(zip(orders, items))) {
            [packagers, metrics] order, item -> Result<OrderDraft, PackagingError>? in
            guard let packager = packagers[order.key.orderType] else { return nil }
            let began = ContinuousClock.now
            defer { metrics.ended(step, since: began) }
            return Result { () throws(PackagingError) in try body(packager, item) }
        }
        var drafts: [OrderDraft] = []
        for (order, result) in zip(orders, results) {
            switch result {
            case .success(let draft)?: drafts.append(draft)
            case .failure(let error)?: outcomes.postpone(order.place, "packaging order \(order.key): \(error)")
            case nil: outcomes.postpone(order.place, "its brand was removed")
            }
        }
        return drafts
    }
}
