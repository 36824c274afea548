import Model
import Packaging
import Store

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
            [packagers, hasIndex = self.pictureIndex != nil, limit = self.recordLimit.value] order, stored in
            Self.attempt(order, packagers) { packager throws(PackagingError) in
                let draft = packager.fold(order, stored: stored, nowEpochSeconds: seconds)
                CrashPoint.reached(.folded)
                // Its pictures have to be looked up first.
                if hasIndex, !draft.pictures.isEmpty { return draft }
                return try packager.package(draft, recordBytes: limit, nowEpochSeconds: seconds)
            }
        }
        let drafts = Self.drafts(results, &batchOutcomes)
        guard let pictureIndex = self.pictureIndex, drafts.contains(where: { !$0.isPackaged }) else { return drafts }
        let (open, packaged) = (drafts.filter { !$0.isPackaged }, drafts.filter(\.isPackaged))
        do {
            let found = try await pictureIndex.find(for: open, nowEpochSeconds: seconds)
            let results = await onAllCores(open) { [packagers, limit = self.recordLimit.value] draft in
                Self.attempt(draft.order, packagers) { packager throws(PackagingError) in
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
