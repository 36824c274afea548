import CoreMetrics
import FoundationEssentials
import Kafka
import Logging
import Model
import Operations
import Store

/// Restores orders from records of `waybill.orders`, under the version that they had, and without packages: these are
/// made when they are asked for. So no brand, no key and no picture is needed, and no signature of the past comes back.
///
/// Nothing is published, since nothing changed for devices. Repeating it is safe: orders that exist are skipped.
struct OrderRestorer: Sendable {
    /// Orders that are decoded together: decoded, they take many times the memory of their records.
    private static let sliceRecords = 256
    /// Orders of a slice that are looked up before the others.
    private static let firstLooks = 16

    let store: OrderStore
    /// The orders of which Redis gets the place of their record alone.
    var cooling = Cooling(after: nil)
    let metrics: RestoreMetrics
    let logger: Logger
    /// Called with the numbers of orders that were written and left alone.
    var onCompared: @Sendable (OrderStore.RestoreCounts) -> Void = { _ in }
    /// Seconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }

    /// Returns true if Redis has what the records say, or something newer.
    ///
    /// The errors are untyped: with a typed throw the optimizer of Swift 6.3.1 crashes where this is inlined.
    func stand(_ records: [KafkaRecord]) async throws -> Bool {
        let items = await self.items(NewestRecords.last(of: records)).compactMap { try? $0.result.get() }
        return zip(items, try await self.store.storedVersions(items.map(\.key))).allSatisfy { $0.stands($1) }
    }

    /// Restores orders, the newest first.
    ///
    /// - Throws: `StoreError`
    func restore(_ records: [KafkaRecord]) async throws {
        var rest = NewestRecords.last(of: records)[...]
        while !rest.isEmpty {
            let slice = Array(rest.suffix(Self.sliceRecords))
            rest = rest.dropLast(slice.count)
            try await self.restoreEach(slice)
        }
        self.metrics.records.increment(by: records.count)
    }

    /// - Parameter records: one for each order.
    private func restoreEach(_ records: [KafkaRecord]) async throws {
        var items: [OrderStore.Restored] = []
        for (record, result) in await self.items(records) {
            switch result {
            case .success(let item): items.append(item)
            case .failure(let error):
                self.metrics.refused.increment()
                self.logger.error(
                    "cannot read a record",
                    metadata: [
                        "origin": "\(record.topic)/\(record.partition)/\(record.offset)", "reason": "\(error)",
                    ])
            }
        }
        var (lost, same): ([OrderStore.Restored], [OrderStore.Restored]) = ([], [])
        var counts = OrderStore.RestoreCounts()
        for (item, stored) in zip(items, try await self.standing(items.map(\.key))) {
            if !item.isIn(stored) {
                lost.append(item)
            } else if item.isOlder(than: stored) {
                counts.newer += 1
            } else {
                same.append(item)
            }
        }
        counts.same += same.count
        try await self.store.restoreParcels(of: same)
        counts = counts + (try await self.store.restore(lost))
        self.metrics.orders.increment(by: counts.written)
        self.onCompared(counts)
    }

    private func items(
        _ records: [KafkaRecord]
    ) async -> [(record: KafkaRecord, result: Result<OrderStore.Restored, any Error>)] {
        let now = self.now()
        // An order that moved to another partition goes on there.
        let own = records.filter { record in !record.headers.contains { $0.name == RecordHeader.moved.rawValue } }
        return await onAllCores(own) { record in
            (record, Result { try OrderStore.Restored(record, self.cooling, nowEpochSeconds: now) })
        }
    }

    /// Returns the stored versions of orders; nil for those that are missing or were not looked up.
    ///
    /// If none of the first ones is stored, Redis was emptied, and the others are not looked up: one that is stored is
    /// sent in vain, since the write compares the versions.
    private func standing(_ keys: [OrderKey]) async throws -> [OrderStore.StoredVersion?] {
        let first = try await self.store.storedVersions(Array(keys.prefix(Self.firstLooks)))
        let others = keys.dropFirst(Self.firstLooks)
        if first.allSatisfy({ $0 == nil }) { return first + others.map { _ in nil } }
        return first + (try await self.store.storedVersions(Array(others)))
    }
}

/// Orders as the last of their records says.
extension OrderStore.Restored {
    /// - Throws: `IdentifierError` or `RecordError` for a record that Waybill did not write.
    init(_ record: KafkaRecord, _ cooling: Cooling = Cooling(after: nil), nowEpochSeconds now: Int64 = 0) throws {
        let key = try OrderKey(String(decoding: record.key ?? [], as: UTF8.self))
        if let value = record.value {
            let content = try OrderRecord.decode(value)
            let state = content.state(key: key)
            let place = PublishedRecord(
                cluster: record.cluster, partition: record.partition, offset: record.offset, bytes: value.count,
                isEnded: state.document.isEnded)
            self = .version(
                state, content: content.content, place,
                isCold: cooling.isCold(state, nowEpochSeconds: now))
        } else if let trace = record.headers.value(.removed) {
            self = .removed(try RemovedOrder.state(key, trace))
        } else {
            self = .forgotten(key, epochMilliseconds: record.timestampMilliseconds)
        }
    }

    /// Returns true if a stored state certainly needs not be written again.
    fileprivate func isIn(_ stored: OrderStore.StoredVersion?) -> Bool {
        switch self {
        case .version(let state, _, let record, _):
            stored.map { $0.isAsNew(as: state) && $0.knows(record, of: state) } ?? false
        case .removed(let state): stored?.isAsNew(as: state) ?? false
        // Even if nothing is stored: an earlier record of the order may still be read.
        case .forgotten: false
        }
    }

    /// Returns true if a stored state is of a later version.
    fileprivate func isOlder(than stored: OrderStore.StoredVersion?) -> Bool {
        switch self {
        case .version(let state, _, _, _), .removed(let state): stored.map { $0.version > state.version } ?? false
        case .forgotten: false
        }
    }

    /// Returns true if Redis lost nothing of this.
    fileprivate func stands(_ stored: OrderStore.StoredVersion?) -> Bool {
        switch self {
        case .version(let state, _, _, _): stored?.isAsNew(as: state) ?? false
        // The trace of a removed order expires by itself.
        case .removed: stored == nil || self.isIn(stored)
        case .forgotten(_, let milliseconds):
            stored.map { $0.isRemoved || $0.modifiedEpochSeconds > milliseconds / 1000 } ?? true
        }
    }
}
