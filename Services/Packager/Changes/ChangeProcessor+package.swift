import Foundation
import Model
import Packaging
import Store

/// Steps 2 to 4: folding, validating and signing on all cores.
extension ChangeProcessor {
    /// The progress of an order through folding and signing.
    private enum Step: Sendable {
        case packaged(PendingWrite)
        /// Its package wants pictures that have to be looked up first.
        case folded(FoldedOrder)
        /// Its signature failed.
        case failed(String)
    }

    /// Folds orders and packages them; those with pictures from URLs behind the others, with what there is.
    func package(
        _ orders: [(ChangeBatch.Order, OrderStore.StoredOrder?)], _ batchOutcomes: inout BatchOutcomes
    ) async -> [PendingWrite] {
        let seconds = self.now() / 1000
        let steps = await onAllCores(orders) {
            [packagers, hasShelf = self.pictureIndex != nil, limit = self.recordLimit.value] order, stored in
            guard let packager = packagers[order.key.orderType] else { return Step.failed("its brand is gone") }
            let folded = packager.fold(
                order.key, stored: stored, changes: order.changes.map { (ChangePosition($0.record), $0.change) },
                nowEpochSeconds: seconds)
            CrashPoint.reached(.folded)
            if hasShelf, !folded.pictureURLs.isEmpty { return .folded(folded) }
            return Self.sign(folded, of: order, in: packager, pictures: [:], limit: limit, nowEpochSeconds: seconds)
        }
        var pendingWrites: [PendingWrite] = []
        var open: [(order: ChangeBatch.Order, folded: FoldedOrder)] = []
        for ((order, _), step) in zip(orders, steps) {
            switch step {
            case .packaged(let pendingWrite): pendingWrites.append(pendingWrite)
            case .folded(let folded): open.append((order, folded))
            case .failed(let reason): batchOutcomes.postpone(order.place, reason)
            }
        }
        guard !open.isEmpty, let pictureIndex = self.pictureIndex else { return pendingWrites }
        do {
            return pendingWrites
                + (try await self.package(open, pictureIndex, &batchOutcomes, nowEpochSeconds: seconds))
        } catch {
            batchOutcomes.postpone(open.map(\.order.place), "\(error)")
            return pendingWrites
        }
    }

    /// Packages orders with pictures from URLs.
    private func package(
        _ open: [(order: ChangeBatch.Order, folded: FoldedOrder)], _ pictureIndex: PictureIndex,
        _ batchOutcomes: inout BatchOutcomes,
        nowEpochSeconds seconds: Int64
    ) async throws(StoreError) -> [PendingWrite] {
        let found = try await pictureIndex.find(Set(open.flatMap(\.folded.pictureKeys)), nowEpochSeconds: seconds)
        let steps = await onAllCores(open) { [packagers, limit = self.recordLimit.value] order, folded in
            guard let packager = packagers[order.key.orderType] else { return Step.failed("its brand is gone") }
            return Self.sign(
                folded, of: order, in: packager, pictures: found.shown[order.key.orderType] ?? [:], limit: limit,
                nowEpochSeconds: seconds)
        }
        var pendingWrites: [PendingWrite] = []
        var packaged: [PictureIndex.Packaged] = []
        for ((order, folded), step) in zip(open, steps) {
            switch step {
            case .packaged(let pendingWrite):
                pendingWrites.append(pendingWrite)
                guard let package = pendingWrite.work.package, let version = pendingWrite.work.state?.version else {
                    continue
                }
                packaged.append(
                    PictureIndex.Packaged(
                        order: order.key, version: version, urls: folded.pictureURLs, missing: package.missingPictures,
                        hosts: self.packagers[order.key.orderType]?.pictureHosts ?? .none))
            case .failed(let reason): batchOutcomes.postpone(order.place, reason)
            case .folded: batchOutcomes.postpone(order.place, "its pictures were not looked up")
            }
        }
        try await pictureIndex.note(packaged, found, nowEpochSeconds: seconds)
        return pendingWrites
    }

    private static func sign(
        _ folded: FoldedOrder, of order: ChangeBatch.Order, in packager: OrderPackager,
        pictures: OrderPackager.Shown, limit: Int, nowEpochSeconds: Int64
    ) -> Step {
        do {
            let work = try packager.work(on: folded, pictures: pictures, nowEpochSeconds: nowEpochSeconds)
            let pendingWrite = PendingWrite(order: order, work: work)
            guard work.package != nil, let record = pendingWrite.record, record.count > limit else {
                return .packaged(pendingWrite)
            }
            let smaller = try packager.work(
                on: folded, pictures: pictures, recordBytes: limit, nowEpochSeconds: nowEpochSeconds)
            return .packaged(PendingWrite(order: order, work: smaller))
        } catch {
            return .failed("packaging order \(folded.key): \(error)")
        }
    }
}
