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
    /// - Throws: `StoreError`, `RetriableFailure`; the orders keep their marks.
    func announce(_ keys: [OrderKey], silent: Set<OrderKey> = []) async throws {
        try await self.announce(try await self.read(keys), silent: silent)
    }

    /// Announces orders as they were read.
    func announce(_ orders: [OrderStore.StoredOrder], silent: Set<OrderKey> = []) async throws {
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
            open = try await self.read(zip(open, standing).filter { $0.state.version != $1 }.map(\.0.state.key))
        }
        throw RetriableFailure(description: "publishing \(open.count) orders: they keep changing")
    }

    /// Reads the present state of some orders. One that no longer exists ends the attempt; the next attempt does not
    /// see it.
    private func read(_ keys: [OrderKey]) async throws -> [OrderStore.StoredOrder] {
        guard !keys.isEmpty else { return [] }
        return try await self.store.orders(keys).map { result in
            guard let stored = try result.get() else {
                throw RetriableFailure(description: "publishing orders: one is no longer in Redis")
            }
            return stored
        }
    }

    /// - Returns: the records that were acknowledged, in order.
    private func publish(
        _ orders: [OrderStore.StoredOrder], silent: Set<OrderKey>
    ) async throws -> [PublishedRecord?] {
        guard let producer = self.producer else {
            throw RetriableFailure(description: "publishing orders: no Kafka producer")
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
