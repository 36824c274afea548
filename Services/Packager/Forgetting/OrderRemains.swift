import FoundationEssentials
import Kafka
import Model
import Operations
import Store
import Synchronization

/// Ends what is left of removed orders: registrations that Kafka has and Redis has not, notifications that wait on
/// `waybill.push-pending`, and parcels.
///
/// A removal ends what Redis lists. A gateway that was killed behind its record, and a pusher whose APNs is away, leave
/// records that Redis does not list, so the topics themselves are asked: one pass for all orders. A registration that
/// has its tombstone is ended in Redis once more: who published that may not have come so far.
/// Bounded: `KeyedRecords.limit` records at a time.
struct OrderRemains: Sendable {
    /// The numbers of things that were ended.
    struct Counts: Hashable, Sendable {
        /// Registrations that Kafka had.
        var registrations = 0
        /// Notifications that waited.
        var notifications = 0
        /// Entries of parcels.
        var parcels = 0

        var sum: Int { self.registrations + self.notifications + self.parcels }

        /// The parts of a line for a person; none for nothing.
        var parts: [String] {
            [
                (self.registrations, "registrations that only Kafka had"),
                (self.notifications, "waiting notifications"), (self.parcels, "entries of parcels"),
            ].filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
        }
    }

    /// Tombstones that are written together.
    private static let batch = 1000

    let topics: Topics
    let reader: KafkaReader
    let store: OrderStore
    let registrations: Registrations
    /// Nil to count what the topics have; nothing is written.
    let producer: KafkaProducer?
    /// Milliseconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }

    /// Ends what is left of orders that are removed, or do not exist; others keep all.
    ///
    /// - Parameter orders: none whose data in Redis is damaged.
    /// - Throws: `StoreError`, `KafkaError`, `RetriableFailure`; what was ended before stays ended, a retry is safe.
    func end(of orders: Set<OrderKey>) async throws -> [OrderKey: Counts] {
        var ended: [OrderKey: Counts] = [:]
        let removed = try await self.removed(orders)
        guard !removed.isEmpty else { return [:] }
        let registered = KeyedRecords(of: removed) { (try? RegistrationKey($0))?.order }
        try await self.each(self.topics.registrations, registered) { records in
            for (order, count) in try await self.endRegistrations(records) {
                ended[order, default: .init()].registrations += count
            }
        }
        let waiting = KeyedRecords(of: removed) { (try? PendingPushKey($0))?.order }
        try await self.each(self.topics.pushPending, waiting) { records in
            for (order, count) in try await self.endNotifications(records) {
                ended[order, default: .init()].notifications += count
            }
        }
        guard self.producer != nil else { return ended }
        for (order, count) in try await self.store.parcels.forget(ofRemoved: removed) {
            ended[order, default: .init()].parcels += count
        }
        return ended
    }

    private func removed(_ orders: Set<OrderKey>) async throws -> Set<OrderKey> {
        var removed: Set<OrderKey> = []
        for some in Array(orders).chunks(of: Self.batch) {
            for (key, stored) in zip(some, try await self.store.storedVersions(some)) where stored?.isRemoved ?? true {
                removed.insert(key)
            }
        }
        return removed
    }

    /// Reads the records of orders in a topic, as often as there are more than fit.
    private func each(
        _ topic: String, _ none: KeyedRecords, _ end: ([KeyedRecords.Record]) async throws -> Void
    ) async throws {
        var isOverfull = true
        while isOverfull {
            let found = Mutex(none)
            try await self.reader.read(try await self.reader.boundsIfKnown(of: topic), of: topic) { records in
                found.withLock { found in for record in records { found.add(record) } }
            }
            let read = found.withLock { $0 }
            let records = read.records
            if !records.isEmpty { try await end(records) }
            // Without tombstones the next pass would find the same.
            isOverfull = read.isOverfull && self.producer != nil && records.contains { $0.value != nil }
        }
    }

    private func endRegistrations(_ records: [KeyedRecords.Record]) async throws -> [OrderKey: Int] {
        guard let producer = self.producer else { return Self.counts(records) }
        var found: [RegistrationCleanup.Found] = []
        var ended: [Registrations.Restored] = []
        for record in records {
            guard let key = try? RegistrationKey(record.key) else { continue }
            if let value = record.value {
                found.append(
                    .init(key: key, record: try? RegistrationRecord.decode(value), partition: record.partition))
            } else {
                ended.append(.init(key: key, registration: nil, stamp: record.stamp))
            }
        }
        for some in ended.chunks(of: Self.batch) { try await self.registrations.restore(some) }
        return try await RegistrationCleanup(
            topics: self.topics, store: self.store, registrations: self.registrations, producer: producer
        ).end(found, now: self.now())
    }

    private func endNotifications(_ records: [KeyedRecords.Record]) async throws -> [OrderKey: Int] {
        guard let producer = self.producer else { return Self.counts(records) }
        let waiting = records.filter { $0.value != nil }
        for some in waiting.chunks(of: Self.batch) {
            let tombstones = some.map { record in
                // The pusher ends what it has in hand of these records, too.
                KafkaMessage(
                    topic: self.topics.pushPending, partition: record.partition, key: Array(record.key.utf8),
                    value: nil, headers: [KafkaHeader(.completed, text: "\(record.offset)")])
            }
            for outcome in await producer.produce(tombstones) { _ = try outcome.get() }
        }
        return Self.counts(records)
    }

    private static func counts(_ records: [KeyedRecords.Record]) -> [OrderKey: Int] {
        records.filter { $0.value != nil }.reduce(into: [:]) { $0[$1.order, default: 0] += 1 }
    }
}

/// The records of some orders in a compacted topic, as compaction would leave them.
struct KeyedRecords: Sendable {
    /// The most records, some 300 bytes each.
    static let limit = 500_000

    struct Record: Hashable, Sendable {
        let partition: Int32
        let offset: Int64
        let timestampMilliseconds: Int64
        let cluster: String
        let key: String
        /// Nil for a tombstone.
        let value: [UInt8]?
        let order: OrderKey

        /// The place of a tombstone of `waybill.registrations`.
        var stamp: RegistrationStamp {
            RegistrationStamp(
                offset: self.offset, epochMilliseconds: self.timestampMilliseconds, cluster: self.cluster,
                partition: self.partition)
        }
    }

    /// The same key may be in several partitions, after a topic got more of them.
    private struct Place: Hashable {
        let partition: Int32
        let key: String
    }

    /// True if there were more records than fit.
    private(set) var isOverfull = false
    private var last: [Place: Record] = [:]
    private let orders: Set<OrderKey>
    private let order: @Sendable (String) -> OrderKey?
    private let limit: Int

    /// - Parameter order: returns the order in a record's key; nil if it names none.
    init(of orders: Set<OrderKey>, limit: Int = Self.limit, _ order: @escaping @Sendable (String) -> OrderKey?) {
        self.orders = orders
        self.limit = limit
        self.order = order
    }

    /// Adds a record; those of one partition in their order.
    mutating func add(_ record: KafkaRecord) {
        guard let key = record.key.flatMap({ String(validating: $0, as: UTF8.self) }), let order = self.order(key),
            self.orders.contains(order)
        else { return }
        let place = Place(partition: record.partition, key: key)
        guard self.last.count < self.limit || self.last[place] != nil else {
            self.isOverfull = true
            return
        }
        self.last[place] = Record(
            partition: record.partition, offset: record.offset, timestampMilliseconds: record.timestampMilliseconds,
            cluster: record.cluster, key: key, value: record.value, order: order)
    }

    /// In the order of partitions and offsets.
    var records: [Record] { self.last.values.sorted { ($0.partition, $0.offset) < ($1.partition, $1.offset) } }
}
