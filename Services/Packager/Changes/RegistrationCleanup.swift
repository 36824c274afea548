import Kafka
import Model
import Store

/// Ends the registrations of removed orders: publishes a tombstone for each, then removes it from Redis.
///
/// Works page by page, so that an order may have any number of them. The next attempt finds the remaining ones in
/// Redis. Those that Redis does not have, since a gateway ended between its record and Redis, are found in the topic by
/// `OrderRemains`.
///
/// A worker that was suspended may do this when the order exists again and devices have registered again. So it reads
/// the registrations first, then whether the order is still removed, and only then ends a registration. A device that
/// registered after our tombstone has a higher offset and stays by its stamp. A device that registered between the read
/// and the tombstone did so because the order existed again, which is seen after the acknowledgement: then only the
/// registration that was read is removed, and one that exists nevertheless is published again, after the wrong
/// tombstone.
struct RegistrationCleanup: Sendable {
    /// Orders whose pages are in memory together, about 512 devices each.
    static let ordersAtOnce = 64
    /// Registrations that are removed in one pipeline.
    private static let pipeline = 500
    /// The time that a batch of changes waits for the registrations of its removed orders; the rest follows when the
    /// removal is tried again.
    static let patience = Duration.seconds(1)

    let topics: Topics
    let store: OrderStore
    let registrations: Registrations
    let producer: KafkaProducer

    /// A registration that ends.
    private struct Ended: Sendable {
        let key: RegistrationKey
        /// The record that was read; nil for one that cannot be read.
        let record: RegistrationRecord?
        /// The partition of its record; nil for that of its key.
        var partition: Int32?
        /// The stamp of the tombstone.
        var stamp: RegistrationStamp
    }

    /// A registration that the topic has.
    struct Found: Sendable {
        let key: RegistrationKey
        /// Nil for one that cannot be read.
        let record: RegistrationRecord?
        let partition: Int32
    }

    /// An order on its way through its pages.
    private struct Removed: Sendable {
        let place: Int
        let key: OrderKey
        let version: Int64?
        var cursor: String?
        var ended: [Ended] = []
    }

    /// Ends the registrations of removed orders; those that are not all ended yet are postponed.
    ///
    /// - Parameter now: milliseconds since 1970.
    func end(
        ofRemoved published: [OrderDraft], now: Int64, within patience: Duration = patience,
        _ batchOutcomes: inout BatchOutcomes
    ) async {
        let deadline = ContinuousClock.now + patience
        let removed = published.filter(\.endsRegistrations).map {
            Removed(place: $0.place, key: $0.key, version: $0.state?.version)
        }
        for some in removed.chunks(of: Self.ordersAtOnce) {
            var open = some
            while !open.isEmpty {
                do {
                    let next = try await self.endPages(of: open, now: now, &batchOutcomes)
                    open = next
                } catch {
                    batchOutcomes.postpone(open.map(\.place), "\(error)")
                    break
                }
                guard ContinuousClock.now >= deadline else { continue }
                batchOutcomes.postpone(
                    open.map(\.place), "the order is removed, it has very many registrations to be ended")
                break
            }
        }
    }

    /// Ends registrations that the topic has, of orders that are removed or do not exist.
    ///
    /// - Returns: the number of those of each order. None of an order that exists, or exists again.
    /// - Throws: `StoreError`, `RetriableFailure`; a retry is safe.
    func end(_ found: [Found], now: Int64) async throws -> [OrderKey: Int] {
        var ended: [OrderKey: Int] = [:]
        let byOrder = Dictionary(grouping: found, by: \.key.order).sorted { $0.key.description < $1.key.description }
        for some in byOrder.chunks(of: Self.ordersAtOnce) {
            var outcomes = BatchOutcomes(count: some.count)
            var removed: [Removed] = []
            let standing = try await self.store.storedVersions(some.map(\.key))
            for (place, ((key, items), stored)) in zip(some, standing).enumerated() where stored?.isRemoved ?? true {
                let ends = items.map { item in
                    let moment = max(now, item.record?.registeredEpochMilliseconds ?? now)
                    return Ended(
                        key: item.key, record: item.record, partition: item.partition,
                        stamp: RegistrationStamp(offset: -1, epochMilliseconds: moment))
                }
                removed.append(Removed(place: place, key: key, version: stored?.version, ended: ends))
                ended[key] = ends.count
            }
            _ = try await self.endListed(removed, &outcomes)
            for case .later(let reason) in outcomes.outcomes {
                throw RetriableFailure(description: reason, origin: FailureOrigin(.kafka, .everything))
            }
        }
        return ended
    }

    /// - Returns: the orders that have further pages.
    private func endPages(
        of orders: [Removed], now: Int64, _ batchOutcomes: inout BatchOutcomes
    ) async throws -> [Removed] {
        var open = orders
        let pages = try await self.registrations.pages(of: open.map { ($0.key, $0.cursor) })
        for (index, page) in zip(open.indices, pages) {
            open[index].cursor = page.next
            open[index].ended = page.devices.map { device in
                // Not before its registration, whatever the clocks say.
                let moment = max(now, device.registration.registeredEpochMilliseconds)
                return Ended(
                    key: RegistrationKey(device: device.device, order: open[index].key), record: device.registration,
                    stamp: RegistrationStamp(offset: -1, epochMilliseconds: moment))
            }
        }
        return try await self.endListed(open, &batchOutcomes).filter { $0.cursor != nil }
    }

    /// Ends the registrations that were read of some orders.
    ///
    /// - Returns: the orders that are still removed, and whose tombstones are acknowledged.
    private func endListed(
        _ orders: [Removed], _ batchOutcomes: inout BatchOutcomes
    ) async throws -> [Removed] {
        var open = try await self.split(orders).removed
        open = await self.publish(open, &batchOutcomes)
        let (removed, overtaken) = try await self.split(open)
        for ended in overtaken.flatMap(\.ended) { try await self.leaveNewer(ended) }
        let items = removed.flatMap(\.ended).map {
            Registrations.Restored(key: $0.key, registration: nil, stamp: $0.stamp)
        }
        for some in items.chunks(of: Self.pipeline) { try await self.registrations.restore(some) }
        return removed
    }

    /// Separates the orders that are still removed from those that exist again.
    private func split(_ orders: [Removed]) async throws -> (removed: [Removed], overtaken: [Removed]) {
        guard orders.contains(where: { !$0.ended.isEmpty }) else { return (orders, []) }
        let versions = try await self.store.versions(of: orders.map(\.key))
        let pairs = zip(orders, versions)
        return (pairs.filter { $0.version == $1 }.map(\.0), pairs.filter { $0.version != $1 }.map(\.0))
    }

    /// - Returns: the orders whose tombstones are acknowledged.
    private func publish(_ orders: [Removed], _ batchOutcomes: inout BatchOutcomes) async -> [Removed] {
        var orders = orders
        let outcomes = await self.producer.produce(
            orders.flatMap(\.ended).map {
                KafkaMessage(
                    topic: self.topics.registrations, partition: $0.partition, key: Array($0.key.text.utf8), value: nil)
            })
        var rest = outcomes[...]
        for index in orders.indices {
            for ended in orders[index].ended.indices {
                switch rest.popFirst() {
                case .success(let position):
                    let moment = orders[index].ended[ended].stamp.epochMilliseconds
                    orders[index].ended[ended].stamp = RegistrationStamp(
                        offset: position.offset, epochMilliseconds: moment, cluster: self.producer.cluster,
                        partition: position.partition)
                case .failure(let error):
                    let topic = self.topics.registrations
                    batchOutcomes.postpone(orders[index].place, "publishing to \(topic): \(error.message)")
                case nil:
                    batchOutcomes.postpone(orders[index].place, "publishing the end of a registration: no outcome")
                }
            }
        }
        return orders.filter { !batchOutcomes.isPostponed($0.place) }
    }

    private func leaveNewer(_ ended: Ended) async throws {
        if let record = ended.record, try await self.registrations.retire(ended.key, record) { return }
        guard let standing = try await self.registrations.registration(ended.key) else { return }
        _ = try await self.producer.produce(
            KafkaMessage(
                topic: self.topics.registrations, key: Array(ended.key.text.utf8), value: standing.encoded))
    }
}
