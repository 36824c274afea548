import Kafka
import Model
import Operations
import Packaging
import Store

/// An order on its way from reading to publishing, whether changes are folded into it or a stored order is renewed.
///
/// Immutable. A class, since an order goes through many arrays and has dozens of parts that each copy would retain.
final class OrderDraft: Sendable {
    /// Its place in the batch, and the changes that it follows from.
    let order: BatchOrder
    /// The order as it was read; nil for one that is not in Redis.
    let stored: OrderStore.StoredOrder?
    /// The state to write and its effect, with one outcome for each change.
    let result: FoldResult
    /// The pictures from URLs that its package needs; none if nothing is packaged.
    let pictures: [OrderPicture]
    /// Present once the effect is `.changed` and the order is packaged, for a new signature, and for a package that is
    /// asked for.
    let package: OrderPackage?
    /// The write to Redis; nil if there is nothing to store.
    let write: OrderStore.Write?
    /// The value of the record for `waybill.orders`; nil for a removed order, whose record is a tombstone, and for one
    /// that has no new version, or is not packaged yet.
    let record: [UInt8]?
    /// The reason why an order cannot be packaged with its brand as it is now; nothing is written.
    let refusal: String?

    /// - Parameter content: the content of the write; nil if there is nothing to store.
    init(
        _ order: BatchOrder, stored: OrderStore.StoredOrder?, result: FoldResult, pictures: [OrderPicture],
        package: OrderPackage? = nil, content: OrderStore.Write.Content? = nil, record: [UInt8]? = nil,
        refusal: String? = nil
    ) {
        self.order = order
        self.stored = stored
        self.result = result
        self.pictures = pictures
        self.package = package
        self.record = record
        self.refusal = refusal
        let revision = stored?.revision ?? order.incomplete?.revision ?? 0
        var waiting: [UInt8] = []
        if stored == nil || stored?.state.isRemoved == true, case .version? = content {
            waiting = IncompleteOrder.encode(order.applied(result.outcomes))
        }
        if case .waiting(let changes)? = content {
            self.write = OrderStore.Write(
                waiting: changes, for: order.key, removed: result.state, expectedRevision: revision)
        } else if let content, let state = result.state {
            self.write = OrderStore.Write(
                state: state, after: stored, revision: revision, waiting: waiting, content: content)
        } else {
            self.write = nil
        }
    }

    /// A draft that follows from changes, with the record to publish if it is packaged.
    convenience init(
        _ order: BatchOrder, stored: OrderStore.StoredOrder?, folded result: FoldResult, pictures: [OrderPicture],
        package: OrderPackage? = nil
    ) {
        var record: [UInt8]?
        if let package, let state = result.state {
            record = OrderRecord(state, content: package.contentDigest).encoded
        }
        let content: OrderStore.Write.Content? =
            switch result.effect {
            case .none: nil
            // An order that has never been written cannot advance without its first version.
            case .advanced: stored == nil ? nil : result.isAnnounced ? .positionsToPublish : .positions
            case .removed: .removal
            case .changed: package.map { .version(OrderStore.StoredPackage($0)) }
            }
        self.init(
            order, stored: stored, result: result, pictures: pictures, package: package, content: content,
            record: record)
    }

    /// A stored order as it was read.
    convenience init(_ order: BatchOrder, read stored: OrderStore.StoredOrder, pictures: [OrderPicture]) {
        self.init(
            order, stored: stored, result: FoldResult(state: stored.state, effect: .none, outcomes: []),
            pictures: pictures)
    }

    /// Returns the draft of an order that does not exist, with the changes that wait from now on.
    func keeping(_ records: [KafkaRecord]) -> OrderDraft {
        OrderDraft(
            self.order, stored: self.stored, result: self.result, pictures: [],
            content: .waiting(IncompleteOrder.encode(records)))
    }

    /// Returns the draft with the reason why nothing is done.
    func refused(_ reason: String) -> OrderDraft {
        OrderDraft(
            self.order, stored: self.stored, result: self.result, pictures: self.pictures, refusal: reason)
    }

    var place: Int { self.order.place }
    var key: OrderKey { self.order.key }
    /// The resulting state; nil if there is still none.
    var state: OrderState? { self.result.state }
}

/// Publishing a draft that follows from changes.
extension OrderDraft {
    /// True if a change was seen before: its publication may have been lost with its worker, or with another cluster,
    /// so it is published again.
    var hasRepetition: Bool { self.result.outcomes.contains(where: \.isRepeated) }

    /// True if the version must be published: it is new, its publication may have been lost, or a change announces it
    /// again.
    ///
    /// A redelivered change whose version is known to be published needs no publication, so resetting a group's offsets
    /// does not publish all orders again. A tombstone is published again, also for another removal: it reaches no
    /// device, and the registrations of its order may still have to be ended.
    var needsPublishing: Bool {
        guard let state = self.state else { return false }
        let effect = self.result.effect
        if effect == .changed || effect == .removed || self.result.isAnnounced { return true }
        if self.hasRepetition && (state.isRemoved || !(self.stored?.isPublished ?? false)) { return true }
        return self.removesAgain
    }

    /// True if a removal was taken of an order that did not exist, and does not now: it ends what was left.
    var removesAgain: Bool {
        guard !self.exists, self.result.effect != .removed else { return false }
        return zip(self.order.changes, self.result.outcomes).contains { item, outcome in
            if case .removed = item.change.kind { outcome.isTaken } else { false }
        }
    }

    /// True if registrations of its order are to be ended: it is removed, or one that never was or whose trace has
    /// ended is removed once more.
    var endsRegistrations: Bool { self.state.map(\.isRemoved) ?? self.removesAgain }

    /// True if nothing that devices must be notified of is left once the version is published.
    ///
    /// A silent version does not announce the one before it: if that one is not known to be published, its redelivered
    /// change still has to be.
    var completesPublication: Bool { !self.result.isSilent || (self.stored?.isPublished ?? true) }

    /// The value of its record, also for a version that was stored before; nil for a tombstone.
    var published: [UInt8]? {
        self.record ?? self.state.flatMap { OrderRecord.value(of: $0, content: self.stored?.contentIfKnown) }
    }

    /// The headers of its record.
    var headers: [KafkaHeader] {
        guard let state = self.state else { return [] }
        return OrderRecord.headers(of: state, isSilent: self.result.isSilent) + self.traceHeaders
    }

    /// The number of changes that needed no signature, since that of another one covers them.
    var conflatedCount: Int {
        guard self.package != nil else { return 0 }
        return max(0, self.result.outcomes.count { $0 == .applied } - 1)
    }
}

extension OrderRecord {
    /// The header of a version that no device is notified of.
    static let silence = KafkaHeader(.silent, text: "1")

    /// Returns the value of a state's record; nil for a removed order, whose record is a tombstone.
    static func value(of state: OrderState, content: String?) -> [UInt8]? {
        state.isRemoved ? nil : OrderRecord(state, content: content).encoded
    }

    /// Returns the headers of a state's record. A removal is never silent.
    static func headers(of state: OrderState, isSilent: Bool) -> [KafkaHeader] {
        isSilent && !state.isRemoved ? [Self.silence] : RemovedOrder.headers(of: state)
    }
}

extension OrderStore.StoredPackage {
    /// The parts of a package that are stored.
    init(_ package: OrderPackage) {
        self.init(
            assets: package.assets.map(\.rawValue), head: package.head,
            certificates: package.certificates.digest.rawValue, tail: package.tail, entityTag: package.entityTag,
            signer: package.signer, content: package.contentDigest)
    }
}

/// The content of a removed order's tombstone, so that its restored trace keeps version, token and positions.
enum RemovedOrder {
    /// Returns the headers of an order's record; none unless it is removed. The trace is the record that the order
    /// would have, with an empty document.
    static func headers(of state: OrderState) -> [KafkaHeader] {
        guard state.isRemoved else { return [] }
        let trace = OrderRecord(state, content: nil).encoded
        return [KafkaHeader(.removed, value: trace)]
    }

    /// - Throws: `RecordError`
    static func state(_ key: OrderKey, _ trace: [UInt8]) throws(RecordError) -> OrderState {
        var state = try OrderRecord.decode(trace).state(key: key)
        state.document = .empty
        state.isRemoved = true
        return state
    }
}

extension OrderDraft {
    /// The traces of the changes that the version is made of, or that announce it again: the newest first.
    var traces: [TraceContext] {
        // Nearly always there is none.
        guard self.order.changes.contains(where: { $0.change.trace != nil }) else { return [] }
        let traces = zip(self.order.changes, self.result.outcomes).compactMap { item, outcome in
            outcome.isTaken || outcome.isRepeated ? item.change.trace : nil
        }
        return TraceContext.links(traces)
    }

    /// The headers by which its record is followed: the newest trace, and links to the others.
    ///
    /// They are no part of the value, which a restored or a renewed version repeats without its changes.
    var traceHeaders: [KafkaHeader] { self.traces.headers }
}
