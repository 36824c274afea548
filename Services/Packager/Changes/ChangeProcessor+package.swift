import Foundation
import Model
import Packaging
import Store

/// Steps 2 to 4: folding, validating and signing on all cores.
extension ChangeProcessor {
    /// The progress of an order through folding and signing.
    private enum Step: Sendable {
        case packaged(Passage)
        /// Its package wants pictures that have to be looked up first.
        case folded(FoldedOrder)
        /// Its signature failed.
        case failed(String)
    }

    /// Folds orders and packages them; those with pictures from URLs behind the others, with what there is.
    func package(
        _ orders: [(ChangeBatch.Order, OrderStore.StoredOrder?)], _ verdicts: inout Verdicts
    ) async -> [Passage] {
        let seconds = self.now() / 1000
        let steps = await Self.onAllCores(orders) {
            [workshops, hasShelf = self.shelf != nil, limit = self.recordLimit.value] order, stored in
            guard let workshop = workshops[order.key.orderType] else { return Step.failed("its brand is gone") }
            let folded = workshop.fold(
                order.key, stored: stored, changes: order.changes.map { (ChangePosition($0.record), $0.change) },
                nowEpochSeconds: seconds)
            CrashPoint.reached(.folded)
            if hasShelf, !folded.pictureURLs.isEmpty { return .folded(folded) }
            return Self.sign(folded, of: order, in: workshop, pictures: [:], limit: limit, nowEpochSeconds: seconds)
        }
        var passages: [Passage] = []
        var open: [(order: ChangeBatch.Order, folded: FoldedOrder)] = []
        for ((order, _), step) in zip(orders, steps) {
            switch step {
            case .packaged(let passage): passages.append(passage)
            case .folded(let folded): open.append((order, folded))
            case .failed(let reason): verdicts.postpone(order.place, reason)
            }
        }
        guard !open.isEmpty, let shelf = self.shelf else { return passages }
        do {
            return passages + (try await self.package(open, shelf, &verdicts, nowEpochSeconds: seconds))
        } catch {
            verdicts.postpone(open.map(\.order.place), "\(error)")
            return passages
        }
    }

    /// Packages orders with pictures from URLs.
    private func package(
        _ open: [(order: ChangeBatch.Order, folded: FoldedOrder)], _ shelf: PictureShelf, _ verdicts: inout Verdicts,
        nowEpochSeconds seconds: Int64
    ) async throws(StoreError) -> [Passage] {
        let found = try await shelf.find(Set(open.flatMap(\.folded.pictureKeys)), nowEpochSeconds: seconds)
        let steps = await Self.onAllCores(open) { [workshops, limit = self.recordLimit.value] order, folded in
            guard let workshop = workshops[order.key.orderType] else { return Step.failed("its brand is gone") }
            return Self.sign(
                folded, of: order, in: workshop, pictures: found.shown[order.key.orderType] ?? [:], limit: limit,
                nowEpochSeconds: seconds)
        }
        var passages: [Passage] = []
        var packaged: [PictureShelf.Packaged] = []
        for ((order, folded), step) in zip(open, steps) {
            switch step {
            case .packaged(let passage):
                passages.append(passage)
                guard let package = passage.work.package, let version = passage.work.state?.version else { continue }
                packaged.append(
                    PictureShelf.Packaged(
                        order: order.key, version: version, urls: folded.pictureURLs, missing: package.missingPictures,
                        hosts: self.workshops[order.key.orderType]?.pictureHosts ?? .none))
            case .failed(let reason): verdicts.postpone(order.place, reason)
            case .folded: verdicts.postpone(order.place, "its pictures were not looked up")
            }
        }
        try await shelf.note(packaged, found, nowEpochSeconds: seconds)
        return passages
    }

    private static func sign(
        _ folded: FoldedOrder, of order: ChangeBatch.Order, in workshop: OrderWorkshop,
        pictures: OrderWorkshop.Shown, limit: Int, nowEpochSeconds: Int64
    ) -> Step {
        do {
            let work = try workshop.work(on: folded, pictures: pictures, nowEpochSeconds: nowEpochSeconds)
            let passage = Passage(order: order, work: work)
            guard work.package != nil, let record = passage.record, record.count > limit else {
                return .packaged(passage)
            }
            let smaller = try workshop.work(
                on: folded, pictures: pictures, recordBytes: limit, nowEpochSeconds: nowEpochSeconds)
            return .packaged(Passage(order: order, work: smaller))
        } catch {
            return .failed("packaging order \(folded.key): \(error)")
        }
    }

    /// Does something with each item, spread over all cores; the results are in order.
    private static func onAllCores<Item: Sendable, Value: Sendable>(
        _ items: [Item], _ body: @escaping @Sendable (Item) -> Value
    ) async -> [Value] {
        let lanes = min(ProcessInfo.processInfo.activeProcessorCount, items.count)
        guard items.count > 1 else { return items.map(body) }
        return await withTaskGroup(of: [(Int, Value)].self) { group in
            for lane in 0..<lanes {
                group.addTask {
                    var values: [(Int, Value)] = []
                    for index in stride(from: lane, to: items.count, by: lanes) {
                        // A batch takes tens of milliseconds; small ones of other brands have their turns in between.
                        if values.count % 4 == 3 { await Task.yield() }
                        values.append((index, body(items[index])))
                    }
                    return values
                }
            }
            return await group.reduce(into: []) { $0 += $1 }.sorted { $0.0 < $1.0 }.map(\.1)
        }
    }
}
