import CoreMetrics
import FoundationEssentials
import Kafka
import Logging
import Model
import Packaging
import Store

/// Restores orders from records of `waybill.orders`, under the version that they had: packages them again, and signs
/// them only if their signature is unknown or no longer valid.
///
/// Nothing is published, since nothing changed for devices. Repeating it is safe: orders that exist are skipped.
struct OrderRestorer: Sendable {
    /// Orders that are decoded and packaged together.
    private static let sliceRecords = 256
    /// Orders of a slice that are looked up before the others.
    private static let firstLooks = 16

    let store: OrderStore
    /// The brands' packagers as they are now.
    let packagers: @Sendable () -> [OrderTypeIdentifier: OrderPackager]
    /// Returns true if an order type has a brand that cannot be loaded at present, or that another packager has.
    let isAwaited: @Sendable (OrderTypeIdentifier) -> Bool
    let pictureIndex: PictureIndex?
    let metrics: RestoreMetrics
    let logger: Logger
    /// Called with the number of orders that were written.
    var onWritten: @Sendable (Int) -> Void = { _ in }
    /// UNIX seconds.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }

    /// The record of an order that must be made again.
    private struct LostRecord: Sendable {
        let key: OrderKey
        let record: OrderRecordText
        let offset: Int64
    }

    /// An order as it was published.
    private struct Published: Sendable {
        let fields: OrderFields
        /// Nil for a version that was published without one.
        let package: OrderPackage?
    }

    /// Returns true if Redis has what the records say, or something newer.
    ///
    /// - Parameter awaited: types whose orders may be missing.
    /// The errors are untyped: with a typed throw the optimizer of Swift 6.3.1 crashes where this is inlined.
    func stand(_ records: [KafkaRecord], but awaited: Set<OrderTypeIdentifier> = []) async throws -> Bool {
        let items = OrderReplay(records).items.map(\.item).filter { !awaited.contains($0.key.orderType) }
        let packagers = self.packagers()
        for (item, standing) in zip(items, try await self.store.storedVersions(items.map(\.key))) {
            // An order that would not be restored may be missing.
            guard packagers[item.key.orderType] != nil || self.isAwaited(item.key.orderType) else { continue }
            if !Self.stands(item, standing) { return false }
        }
        return true
    }

    private static func stands(_ item: OrderReplay.Item, _ standing: OrderStore.StoredVersion?) -> Bool {
        switch item {
        case .version(_, let record):
            standing?.isAsNew(asVersion: record.version, modifiedEpochSeconds: record.modifiedEpochSeconds) ?? false
        // The trace of a removed order expires by itself.
        case .removed(let state):
            standing?.isAsNew(asVersion: state.version, modifiedEpochSeconds: state.modifiedEpochSeconds) ?? true
        case .forgotten(_, let milliseconds):
            standing.map { $0.isRemoved || $0.modifiedEpochSeconds > milliseconds / 1000 } ?? true
        }
    }

    /// Returns true if some packager has the brand of an order type, or tries to load it.
    func isKnown(_ type: OrderTypeIdentifier) -> Bool { self.packagers()[type] != nil || self.isAwaited(type) }

    /// Returns true if the orders of a type can be restored, or skipped because no brand exists for it.
    func canRestore(_ type: OrderTypeIdentifier) -> Bool {
        self.packagers()[type] != nil || !self.isAwaited(type)
    }

    /// Restores orders, the newest first.
    ///
    /// - Returns: the orders that must wait for their brand; nil if there are none.
    /// - Throws: `StoreError`, `PackagingError` `.signing`.
    func restore(_ records: [KafkaRecord]) async throws -> AwaitedOrders? {
        var awaited: AwaitedOrders?
        var rest = OrderReplay.last(of: records)[...]
        // A slice at a time: decoded and packaged, orders take many times the memory of their records.
        while !rest.isEmpty {
            let slice = Array(rest.suffix(Self.sliceRecords))
            rest = rest.dropLast(slice.count)
            awaited = try await self.restoreEach(slice)?.merging(awaited) ?? awaited
        }
        self.metrics.records.increment(by: records.count)
        return awaited
    }

    /// - Parameter records: one for each order.
    private func restoreEach(_ records: [KafkaRecord]) async throws -> AwaitedOrders? {
        let replay = OrderReplay(records)
        for (origin, reason) in replay.unreadable { self.refuse("cannot read a record", origin, reason) }
        let standing = try await self.standing(replay.items.map(\.item.key))
        let packagers = self.packagers()
        var restored: [OrderStore.Restored] = []
        var lost: [LostRecord] = []
        var awaited: AwaitedOrders?
        for ((item, offset), standing) in zip(replay.items, standing) {
            switch item {
            case .removed(let state):
                if !(standing?.isAsNew(
                    asVersion: state.version, modifiedEpochSeconds: state.modifiedEpochSeconds) ?? false)
                {
                    restored.append(.removed(state))
                }
            // Even if nothing is stored: an earlier record of the order may still be read.
            case .forgotten(let key, let milliseconds):
                restored.append(.forgotten(key, epochMilliseconds: milliseconds))
            case .version(let key, let record):
                if Self.stands(item, standing) { continue }
                if packagers[key.orderType] != nil {
                    lost.append(LostRecord(key: key, record: record, offset: offset))
                } else {
                    // Another packager may have the brand; the one that completes the view finds out.
                    awaited = AwaitedOrders(offset: offset, types: [key.orderType]).merging(awaited)
                    if !self.isAwaited(key.orderType) { self.metrics.unknownTypes.increment() }
                }
            }
        }
        let begun = PackagingStart.now
        let (published, others) = await self.asPublished(lost, packagers)
        try await self.store.putAssets(
            packagers.assets(
                of: published.lazy.compactMap { order in order.package.map { (order.fields.key, $0) } }))
        restored += published.map { .fields($0.fields, $0.package.map { OrderStore.StoredPackage($0) }) }
        restored += try await self.package(others, packagers)
        let written = try await self.store.restore(restored, begun: begun)
        self.metrics.orders.increment(by: written)
        self.onWritten(written)
        return awaited
    }

    /// Returns the stored versions of orders; nil for those that are missing or were not looked up.
    ///
    /// If none of the first ones is stored, Redis was emptied, and the others are not looked up: one that is stored is
    /// packaged in vain, since the write compares the versions.
    private func standing(_ keys: [OrderKey]) async throws -> [OrderStore.StoredVersion?] {
        let first = try await self.store.storedVersions(Array(keys.prefix(Self.firstLooks)))
        let others = keys.dropFirst(Self.firstLooks)
        if first.allSatisfy({ $0 == nil }) { return first + others.map { _ in nil } }
        return first + (try await self.store.storedVersions(Array(others)))
    }

    /// Makes orders from the texts of records, with the packages that were published, if that yields these.
    ///
    /// - Returns: these orders, and those that must be decoded and packaged, or cannot be read.
    private func asPublished(
        _ lost: [LostRecord], _ packagers: [OrderTypeIdentifier: OrderPackager]
    ) async -> (published: [Published], others: [LostRecord]) {
        let made = await onAllCores(lost) { lost -> Published? in
            guard !lost.record.isUnpackaged else {
                let fields = lost.record.fields(key: lost.key)
                return (try? fields ?? OrderFields(lost.record.record().state(key: lost.key))).map {
                    Published(fields: $0, package: nil)
                }
            }
            guard let package = packagers[lost.key.orderType]?.asPublished(lost.record, of: lost.key),
                let fields = lost.record.fields(key: lost.key)
            else { return nil }
            return Published(fields: fields, package: package)
        }
        return (made.compactMap { $0 }, zip(lost, made).filter { $0.1 == nil }.map(\.0))
    }

    /// Packages orders again, with the available pictures.
    private func package(
        _ lost: [LostRecord], _ packagers: [OrderTypeIdentifier: OrderPackager]
    ) async throws -> [OrderStore.Restored] {
        guard !lost.isEmpty else { return [] }
        let seconds = self.now()
        var drafts: [OrderDraft] = []
        let results = await onAllCores(Array(lost.enumerated())) { place, lost in
            Result { try Self.draft(lost, at: place, packagers) }
        }
        for (lost, result) in zip(lost, results) {
            switch result {
            case .success(let draft): drafts.append(draft)
            case .failure(let error):
                self.refuse("cannot read a record", "\(lost.key), offset \(lost.offset)", "\(error)")
            }
        }
        let found = try await self.pictureIndex?.find(for: drafts, nowEpochSeconds: seconds) ?? PictureIndex.Found()
        drafts = try await onAllCores(drafts) { draft in
            try packagers[draft.key.orderType]?.restore(
                draft, pictures: found.shown[draft.key.orderType] ?? [:], nowEpochSeconds: seconds) ?? draft
        }
        self.metrics.signatures.increment(
            by: drafts.count { draft in draft.package.map { $0.seal != draft.seal } ?? false })
        for draft in drafts {
            guard let seal = draft.seal, let package = draft.package, seal.isDamaged(replacedBy: package.seal) else {
                continue
            }
            self.metrics.damagedSignatures.increment()
            self.logger.error(
                "a published signature is not valid; the package is signed again", metadata: ["order": "\(draft.key)"])
        }
        try await self.pictureIndex?.note(drafts, found, nowEpochSeconds: seconds)
        try await self.store.putAssets(packagers.assets(of: drafts))
        return drafts.compactMap { draft in
            guard let state = draft.state, let package = draft.package else {
                self.refuse(
                    "cannot restore an order", "\(draft.key)", "its package is too large with the brand's present files"
                )
                return nil
            }
            return .version(state, OrderStore.StoredPackage(package))
        }
    }

    /// - Throws: `RecordError`.
    private static func draft(
        _ lost: LostRecord, at place: Int, _ packagers: [OrderTypeIdentifier: OrderPackager]
    ) throws -> OrderDraft {
        let record = try lost.record.record()
        let state = record.state(key: lost.key)
        return OrderDraft(
            BatchOrder(place: place, key: lost.key), published: state, seal: record.seal.flatMap { PackageSeal($0) },
            pictures: packagers[lost.key.orderType]?.pictures(of: state) ?? [])
    }

    private func refuse(_ what: Logger.Message, _ origin: String, _ reason: String) {
        self.metrics.refused.increment()
        self.logger.error(what, metadata: ["origin": "\(origin)", "reason": "\(reason)"])
    }
}
