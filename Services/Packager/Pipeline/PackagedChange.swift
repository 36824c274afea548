import Kafka
import Model
import Packaging
import Store

/// The changes of one order, folded and packaged: what is to be written and said.
struct PackagedChange: Sendable {
    let key: OrderKey
    /// The order as it was read; nil for a new one.
    let stored: OrderStore.StoredOrder?
    /// The state after the changes; nil if there is none still.
    var state: OrderState?
    var effect: FoldResult.Effect
    /// Present when the effect is `.changed`.
    var package: OrderPackage?
    /// One per change.
    var outcomes: [ChangeOutcome]
    /// As of `FoldResult`.
    var isAnnounced = false
    /// As of `FoldResult`.
    var isSilent = false
    /// As of `FoldResult`.
    var withheld: [String] = []

    /// The revision that the write expects in Redis.
    var expectedRevision: Int64 { self.stored?.revision ?? 0 }

    /// A change that was seen before may be one whose publication was lost with its worker: it is published again.
    var wasRedelivered: Bool {
        self.outcomes.contains { if case .skipped(.redelivered) = $0 { true } else { false } }
    }
}

/// The changes of one order, folded and not packaged yet.
struct FoldedOrder: Sendable {
    let key: OrderKey
    /// The order as it was read; nil for a new one.
    let stored: OrderStore.StoredOrder?
    let changes: [(ChangePosition, OrderChange)]
    let result: FoldResult
    /// The pictures that its package wants; none when there is nothing to package.
    let pictureURLs: [String]
    /// Their keys.
    let pictureKeys: [PictureKey]
}

extension PackagedChange {
    init(key: OrderKey, stored: OrderStore.StoredOrder?, result: FoldResult, package: OrderPackage?) {
        self.init(
            key: key, stored: stored, state: result.state, effect: result.effect, package: package,
            outcomes: result.outcomes, isAnnounced: result.isAnnounced, isSilent: result.isSilent,
            withheld: result.withheld)
    }
}

extension OrderRecord {
    /// The record of a state with the package that was made of it.
    init(_ state: OrderState, _ package: OrderPackage) {
        self.init(
            state,
            recipe: PackageRecipe(assets: package.assets.map(\.rawValue), entityTag: package.entityTag),
            seal: package.seal.text)
    }

    /// The header of a version that no device is told of.
    static let silence = KafkaHeader(name: OrderRecordHeader.silent, text: "1")
}

extension OrderStore.StoredPackage {
    /// The parts of a package that are stored.
    init(_ package: OrderPackage) {
        self.init(
            head: package.head, assets: package.assets.map(\.rawValue), tail: package.tail,
            entityTag: package.entityTag, signer: package.signer, content: package.contentDigest)
    }
}

extension PackagedChange {
    /// The write to Redis; nil if there is nothing to store.
    var write: OrderStore.Write? {
        guard let state = self.state else { return nil }
        switch self.effect {
        case .none: return nil
        case .advanced:
            // An order that has never been written cannot move on without its first version.
            guard self.stored != nil else { return nil }
            return OrderStore.Write(
                state: state, expectedRevision: self.expectedRevision,
                content: self.isAnnounced ? .positionsToTell : .positions)
        case .removed:
            return OrderStore.Write(state: state, expectedRevision: self.expectedRevision, content: .removal)
        case .changed:
            guard let package = self.package else { return nil }
            return OrderStore.Write(
                state: state, expectedRevision: self.expectedRevision,
                content: .version(OrderStore.StoredPackage(package)))
        }
    }

    /// True if the version is to be published: it is new, its publication may have been lost, or a change
    /// announces it once more.
    ///
    /// A change that was seen before and whose version is known to be published says nothing new, however many come
    /// again: a group whose offsets were reset makes nobody publish all orders. A tombstone reaches no device, and the
    /// registrations of its order may still have to be ended.
    var isTold: Bool {
        guard let state = self.state else { return false }
        if self.effect == .changed || self.effect == .removed || self.isAnnounced { return true }
        return self.wasRedelivered && (state.isRemoved || !(self.stored?.isTold ?? false))
    }

    /// True if nothing that devices are to be told of is left once the version is published.
    ///
    /// A silent version says nothing of the one before it: if the record of that one is not known to be published, the
    /// change that comes again for its sake still has to be.
    var settles: Bool { !self.isSilent || (self.stored?.isTold ?? true) }

    /// True if the version to publish is already in Redis and was not packaged here, so that only Redis has its seal.
    var stands: Bool { self.isTold && self.package == nil && self.state?.isRemoved == false }

    /// The record for `waybill.orders`; nil for a removed order, whose record is a tombstone, and for one that was not
    /// packaged here.
    var record: OrderRecord? {
        guard let state = self.state, let package = self.package, !state.isRemoved else { return nil }
        return OrderRecord(state, package)
    }

    /// The headers of its record.
    var headers: [KafkaHeader] {
        guard let state = self.state else { return [] }
        if state.isRemoved || !self.isSilent { return RemovedOrder.headers(of: state) }
        return [OrderRecord.silence]
    }

    /// The changes that needed no signature of their own, since another one's covers them.
    var conflatedCount: Int {
        guard self.package != nil else { return 0 }
        return max(0, self.outcomes.count { $0 == .applied } - 1)
    }
}
