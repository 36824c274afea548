import Kafka
import Model
import Operations
import Store

/// Publishes versions to `waybill.orders` that were written by a process that does not own the order's partition, or
/// lost it in the meantime.
///
/// An owner writes and publishes in turn, so its last record is of its last version. Another process's record may
/// follow one of a later version, and a compacted topic would then keep the wrong one. So the stored version is looked
/// at again with each acknowledgement, and published again until it is the one that was published last. A write after
/// that look is published after our record, by its writer.
struct VersionPublisher: Sendable {
    /// The number of times that the present version is published before it is left to the next attempt. Each repetition
    /// means that the order changed within the milliseconds of an acknowledgement.
    private static let limit = 20

    let topics: Topics
    let store: OrderStore
    /// Nil if nothing has to be announced.
    let producer: KafkaProducer?

    /// - Parameter silent: orders whose versions are announced to no device.
    /// - Returns: the orders that cannot be read, with the reasons; they keep their marks.
    /// - Throws: `StoreError`, `RetriableFailure`; the orders keep their marks.
    func announce(_ keys: [OrderKey], silent: Set<OrderKey> = []) async throws -> [OrderKey: String] {
        var unread: [OrderKey: String] = [:]
        let orders = try await self.read(keys, &unread)
        try await self.announce(orders, silent: silent, &unread)
        return unread
    }

    /// Announces orders as they were read.
    func announce(
        _ orders: [OrderStore.StoredOrder], silent: Set<OrderKey> = []
    ) async throws -> [OrderKey: String] {
        var unread: [OrderKey: String] = [:]
        try await self.announce(orders, silent: silent, &unread)
        return unread
    }

    private func announce(
        _ orders: [OrderStore.StoredOrder], silent: Set<OrderKey>, _ unread: inout [OrderKey: String]
    ) async throws {
        var open = orders
        for round in 0..<Self.limit {
            guard !open.isEmpty else { return }
            // A version that was written in the meantime may have to be announced.
            let silent = round == 0 ? silent : []
            let standing = try await self.store.acknowledge(
                zip(open, try await self.publish(open, silent: silent)).map { order, record in
                    // A silent record does not announce a version that may have been lost before it.
                    return (
                        order.unpublished,
                        .init(
                            order.state, record: record, isAnnounced: !silent.contains(order.state.key),
                            isRequested: order.isToAnnounce)
                    )
                })
            open = try await self.read(
                zip(open, standing).filter { $0.state.version != $1 }.map(\.0.state.key), &unread)
        }
        throw RetriableFailure(
            description: "publishing \(open.count) orders: they keep changing", origin: FailureOrigin(.redis, .order))
    }

    /// Reads the present state of some orders, and notes those that cannot be read.
    private func read(
        _ keys: [OrderKey], _ unread: inout [OrderKey: String]
    ) async throws -> [OrderStore.StoredOrder] {
        guard !keys.isEmpty else { return [] }
        var orders: [OrderStore.StoredOrder] = []
        for (key, result) in zip(keys, try await self.store.orders(keys)) {
            switch result {
            case .success(let stored?): orders.append(stored)
            // The next attempt does not see it.
            case .success: unread[key] = "publishing order \(key): it is no longer in Redis"
            case .failure(let error): unread[key] = "publishing order \(key): \(error.message)"
            }
        }
        return orders
    }

    /// - Returns: the records that were acknowledged, in order.
    private func publish(
        _ orders: [OrderStore.StoredOrder], silent: Set<OrderKey>
    ) async throws -> [PublishedRecord?] {
        guard let producer = self.producer else {
            throw RetriableFailure(
                description: "publishing orders: no Kafka producer", origin: FailureOrigin(.kafka, .everything))
        }
        let messages = orders.map { stored in
            KafkaMessage(
                topic: self.topics.orders, key: Array(stored.state.key.description.utf8),
                value: OrderRecord.value(of: stored.state, content: stored.contentIfKnown),
                headers: OrderRecord.headers(of: stored.state, isSilent: silent.contains(stored.state.key)))
        }
        let outcomes = await producer.produce(messages)
        let cluster = producer.cluster
        return try zip(orders, zip(messages, outcomes)).map { stored, sent in
            switch sent.1 {
            case .success(let position):
                return PublishedRecord(sent.0, at: position, in: cluster, of: stored.state)
            case .failure(let error):
                throw RetriableFailure(
                    description: "publishing order versions: \(error.message)",
                    origin: FailureOrigin(.kafka, .everything))
            }
        }
    }
}

extension PublishedRecord {
    /// The record of a state's version that was acknowledged; nil for a removed order, and if its offset is not known.
    init?(_ message: KafkaMessage, at position: KafkaPosition, in cluster: String, of state: OrderState?) {
        guard let state, let value = message.value else { return nil }
        self.init(
            cluster: cluster, partition: position.partition, offset: position.offset, bytes: value.count,
            isEnded: state.document.isEnded)
    }
}
