import CoreMetrics
import Model
import Store

/// Step 5: writes the changed orders to Redis, each by a compare-and-set.
struct DraftWriter: Sendable {
    let store: OrderStore
    let packagers: [OrderTypeIdentifier: OrderPackager]
    let metrics: PackagerMetrics

    /// Writes the drafts of a page, their assets first.
    func write(_ open: [OrderDraft], _ page: OrderReader.Page, _ outcomes: inout BatchOutcomes) async {
        let started = ContinuousClock.now
        var writes: [(place: Int, write: OrderStore.Write)] = []
        for draft in open { if let write = draft.write { writes.append((draft.place, write)) } }
        do {
            let refused = try await self.store.putEachAsset(self.packagers.assets(of: open), under: page.moment.epochs)
            CrashPoint.reached(.assetsPut)
            // A full Redis refuses new assets and still accepts removals.
            if !refused.isEmpty {
                writes.removeAll { place, write in
                    guard let message = write.assets.lazy.compactMap({ refused[$0] }).first else { return false }
                    outcomes.postpone(place, "writing an asset of order \(write.key): \(message)")
                    return true
                }
            }
            let written = try await self.store.write(writes.map(\.write), begun: page.moment.begun)
            for (sent, outcome) in zip(writes, written) {
                switch outcome {
                case .written: break
                case .conflict:
                    outcomes.overtake(sent.place)
                    self.metrics.conflicts.increment()
                case .refused(let message):
                    outcomes.postpone(sent.place, "writing order \(sent.write.key): \(message)")
                }
            }
        } catch {
            // Some may be stored nevertheless: the next attempt finds and publishes them.
            outcomes.postpone(writes.map(\.place), "\(error)")
        }
        CrashPoint.reached(.written)
        self.metrics.packagesBuilt.increment(by: open.count { $0.package != nil })
        self.metrics.ended(.write, since: started)
    }
}
