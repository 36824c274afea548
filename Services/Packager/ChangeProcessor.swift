import CoreMetrics
import Foundation
import Kafka
import Logging
import Model
import Packaging
import Store

/// Does what a batch of records asks for, up to the acknowledgement of everything that is published.
struct ChangeProcessor: Sendable {
    /// How often an order is read and folded again when another worker wrote in between.
    private static let conflictLimit = 5

    let topics: Topics
    /// The brands' workshops, the same for all of a batch.
    var workshops: [OrderTypeIdentifier: OrderWorkshop]
    let store: OrderStore
    let registrations: Registrations
    let producer: KafkaProducer
    let metrics: PackagerMetrics
    let logger: Logger
    /// Where pictures that orders name by URL are found; nil leaves them out.
    var shelf: PictureShelf?
    private let deadLetters: DeadLetterOffice
    /// Milliseconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }

    init(
        topics: Topics, workshops: [OrderTypeIdentifier: OrderWorkshop], store: OrderStore,
        registrations: Registrations, producer: KafkaProducer, metrics: PackagerMetrics, logger: Logger
    ) {
        self.topics = topics
        self.workshops = workshops
        self.store = store
        self.registrations = registrations
        self.producer = producer
        self.metrics = metrics
        self.logger = logger
        self.deadLetters = DeadLetterOffice(topics: topics, producer: producer, metrics: metrics, logger: logger)
    }

    /// A batch that is not done; trying again is safe at any point.
    struct NotDone: Error, CustomStringConvertible {
        let description: String
    }

    /// - Throws: `StoreError`, `NotDone`; then nothing of the batch may be committed.
    func process(_ records: [KafkaRecord]) async throws {
        self.deadLetters.begin(records)
        let batch = ChangeBatch(records) { self.workshops[$0] != nil }
        try await self.deadLetters.send(batch.refused)
        var open = batch.orders
        var round = 0
        while !open.isEmpty {
            round += 1
            guard round <= Self.conflictLimit else {
                throw NotDone(description: "writing \(open.count) orders: another worker keeps writing them")
            }
            let (works, corrupt) = try await self.fold(open)
            // Before the write, which moves orders past these changes: a letter that failed behind it would be lost,
            // since the next try takes its change for a redelivery.
            try await self.deadLetters.send(corrupt + Self.refused(works, of: open))
            let conflicts = try await self.write(works)
            let done = works.filter { !conflicts.contains($0.key) }
            try await self.publish(done)
            self.account(for: done)
            open.removeAll { !conflicts.contains($0.key) }
            self.metrics.conflicts.increment(by: open.count)
        }
        self.metrics.changesConsumed.increment(by: records.count)
        let now = self.now()
        // A record's moment is its producer's word: without one, or before 1970, it says nothing.
        for record in records where record.timestampMilliseconds >= 0 {
            self.metrics.age.recordMilliseconds(max(0, now - record.timestampMilliseconds))
        }
    }

    /// Reads the orders' states and folds, packages and signs on all cores.
    private func fold(
        _ orders: [ChangeBatch.Order]
    ) async throws -> (works: [OrderWork], corrupt: [ChangeBatch.Refused]) {
        let stored = try await self.store.orders(orders.map(\.key))
        var corrupt: [ChangeBatch.Refused] = []
        var readable: [(ChangeBatch.Order, OrderStore.StoredOrder?)] = []
        for (order, result) in zip(orders, stored) {
            switch result {
            case .success(let stored): readable.append((order, stored))
            case .failure(let error):
                guard error.code == .corrupt else { throw error }
                let fault = ChangeFault(
                    code: .corruptState,
                    reason: "\(error.message); repair or remove what stands in Redis, then publish the change again")
                corrupt += order.changes.map { ChangeBatch.Refused(record: $0.record, fault: fault) }
            }
        }
        return (try await self.package(readable), corrupt)
    }

    /// Folds orders and packages them; those with pictures from URLs behind the others, with what there is.
    private func package(
        _ orders: [(ChangeBatch.Order, OrderStore.StoredOrder?)]
    ) async throws -> [OrderWork] {
        let seconds = self.now() / 1000
        let steps = try await Self.onAllCores(orders) { [workshops, hasShelf = self.shelf != nil] order, stored in
            let workshop = workshops[order.key.orderType]
            let folded = workshop?.fold(
                order.key, stored: stored, changes: order.changes.map { (ChangePosition($0.record), $0.change) },
                nowEpochSeconds: seconds)
            guard let workshop, let folded, folded.pictureURLs.isEmpty || !hasShelf else {
                return (folded: folded, work: OrderWork?.none)
            }
            return (folded: folded, work: try workshop.work(on: folded, nowEpochSeconds: seconds))
        }
        var works = steps.compactMap(\.work)
        guard let shelf = self.shelf else { return works }
        let open = steps.filter { $0.work == nil }.compactMap(\.folded)
        guard !open.isEmpty else { return works }

        let found = try await shelf.find(Set(open.flatMap(\.pictureKeys)), nowEpochSeconds: seconds)
        let pictured = try await Self.onAllCores(open) { [workshops] folded in
            try workshops[folded.key.orderType]?.work(
                on: folded, pictures: found.shown[folded.key.orderType] ?? [:], nowEpochSeconds: seconds)
        }
        let packaged = zip(open, pictured).compactMap { folded, work -> PictureShelf.Packaged? in
            guard let package = work?.package, let version = work?.state?.version else { return nil }
            return PictureShelf.Packaged(
                order: folded.key, version: version, urls: folded.pictureURLs, missing: package.missingPictures)
        }
        try await shelf.note(packaged, found, nowEpochSeconds: seconds)
        works += pictured.compactMap(\.self)
        return works
    }

    /// Does something with each item, spread over all cores; the results are in order.
    private static func onAllCores<Item: Sendable, Value: Sendable>(
        _ items: [Item], _ body: @escaping @Sendable (Item) throws -> Value
    ) async throws -> [Value] {
        let lanes = min(ProcessInfo.processInfo.activeProcessorCount, items.count)
        return try await withThrowingTaskGroup(of: [(Int, Value)].self) { group in
            for lane in 0..<lanes {
                group.addTask {
                    try stride(from: lane, to: items.count, by: lanes).map { ($0, try body(items[$0])) }
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }.sorted { $0.0 < $1.0 }.map(\.1)
        }
    }

    /// Writes what changed.
    ///
    /// - Returns: the orders that another worker wrote in between.
    private func write(_ works: [OrderWork]) async throws -> Set<OrderKey> {
        try await self.putAssets(works)
        let writes = works.compactMap(\.write)
        let outcomes = try await self.store.write(writes)
        var conflicts: Set<OrderKey> = []
        for (write, outcome) in zip(writes, outcomes) {
            switch outcome {
            case .written: break
            case .conflict: conflicts.insert(write.state.key)
            case .refused(let message):
                throw NotDone(description: "writing order \(write.state.key): \(message)")
            }
        }
        self.metrics.packagesBuilt.increment(by: works.count { $0.package != nil })
        return conflicts
    }

    private func putAssets(_ works: [OrderWork]) async throws {
        var entries: [String: [UInt8]] = [:]
        for work in works {
            guard let package = work.package, let workshop = self.workshops[work.key.orderType] else { continue }
            for digest in package.assets where entries[digest.rawValue] == nil {
                entries[digest.rawValue] = workshop.entries[digest]
            }
        }
        try await self.store.putAssets(entries.map { ($0.key, $0.value) })
    }

    /// Tells `waybill.orders` about each new version, and again about one whose telling may have been lost.
    private func publish(_ works: [OrderWork]) async throws {
        var messages: [KafkaMessage] = []
        var removed: [OrderKey] = []
        for work in works {
            guard let state = work.state, work.effect == .changed || work.effect == .removed || work.wasRedelivered
            else { continue }
            if state.isRemoved { removed.append(work.key) }
            messages.append(
                KafkaMessage(
                    topic: self.topics.orders, key: Array(work.key.description.utf8), value: work.record?.encoded))
        }
        let registrations = try await self.registrations(of: removed)
        messages += registrations.map {
            KafkaMessage(topic: self.topics.registrations, key: Array($0.text.utf8), value: nil)
        }
        try await self.send(messages, "order versions")
        // Behind their tombstones: a try that fails in between still finds them.
        for registration in registrations { try await self.registrations.unregister(registration) }
    }

    private func registrations(of orders: [OrderKey]) async throws -> [RegistrationKey] {
        guard !orders.isEmpty else { return [] }
        return zip(orders, try await self.registrations.devices(of: orders)).flatMap { key, devices in
            devices.map { RegistrationKey(device: $0.device, order: key) }
        }
    }

    private func send(_ messages: [KafkaMessage], _ what: String) async throws {
        guard !messages.isEmpty else { return }
        for case .failure(let error) in await self.producer.produce(messages) {
            throw NotDone(description: "publishing \(what): \(error.message)")
        }
    }

    /// The changes that cannot be applied.
    private static func refused(_ works: [OrderWork], of orders: [ChangeBatch.Order]) -> [ChangeBatch.Refused] {
        let outcomes = Dictionary(works.map { ($0.key, $0.outcomes) }) { first, _ in first }
        return orders.flatMap { order in
            zip(order.changes, outcomes[order.key] ?? []).compactMap { change, outcome in
                guard case .refused(let fault) = outcome else { return nil }
                return ChangeBatch.Refused(record: change.record, fault: fault)
            }
        }
    }

    /// Counts what became of the changes.
    private func account(for works: [OrderWork]) {
        for outcome in works.lazy.flatMap(\.outcomes) {
            switch outcome {
            case .applied: self.metrics.changesApplied.increment()
            case .unchanged: self.metrics.changesUnchanged.increment()
            case .skipped: self.metrics.changesSkipped.increment()
            case .refused: break
            }
        }
        for work in works {
            guard let omitted = work.package?.omittedFiles, !omitted.isEmpty else { continue }
            self.metrics.filesOmitted.increment(by: omitted.count)
            self.logger.warning(
                "files left out of a package",
                metadata: ["order": "\(work.key)", "files": "\(omitted.joined(separator: ", "))"])
        }
    }
}

extension OrderStore.StoredPackage {
    /// What is stored of a package.
    init(_ package: OrderPackage) {
        self.init(
            head: package.head, assets: package.assets.map(\.rawValue), tail: package.tail,
            entityTag: package.entityTag, signer: package.signer, content: package.contentDigest)
    }
}

extension OrderWork {
    /// What to write; nil when nothing moved.
    var write: OrderStore.Write? {
        guard let state = self.state else { return nil }
        switch self.effect {
        case .none: return nil
        case .advanced:
            // An order that has never been written cannot move on without its first version.
            guard self.stored != nil else { return nil }
            return OrderStore.Write(state: state, expectedRevision: self.expectedRevision, content: .positions)
        case .removed:
            return OrderStore.Write(state: state, expectedRevision: self.expectedRevision, content: .removal)
        case .changed:
            guard let package = self.package else { return nil }
            return OrderStore.Write(
                state: state, expectedRevision: self.expectedRevision,
                content: .version(OrderStore.StoredPackage(package)))
        }
    }

    /// The record for `waybill.orders`; nil for a removed order, whose record is a tombstone.
    var record: OrderRecord? {
        guard let state = self.state, !state.isRemoved else { return nil }
        let assets = self.package?.assets.map(\.rawValue) ?? self.stored?.assets ?? []
        let entityTag = self.package?.entityTag ?? self.stored?.entityTag ?? ""
        return OrderRecord(state, recipe: PackageRecipe(assets: assets, entityTag: entityTag))
    }
}
