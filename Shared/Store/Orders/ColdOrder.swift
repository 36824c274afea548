public import Model
import Redis

/// The last record of an order on `waybill.orders`.
///
/// Redis has it as text: `<partition>:<offset>:<bytes>`, followed by `:ended` if the order ended with it.
public struct PublishedRecord: Hashable, Sendable {
    public let partition: Int32
    /// Compaction keeps it.
    public let offset: Int64
    /// Bytes of its value.
    public let bytes: Int
    /// True if the order is completed or cancelled.
    public let isEnded: Bool

    /// Nil if the broker did not tell the offset.
    public init?(partition: Int32, offset: Int64, bytes: Int, isEnded: Bool) {
        guard offset >= 0 else { return nil }
        self.partition = partition
        self.offset = offset
        self.bytes = bytes
        self.isEnded = isEnded
    }

    /// Nil for a text that is not one of ours, and for an empty one.
    init?(_ text: String) {
        let parts = parts(text)
        guard parts.count == 3 || parts.count == 4 && parts[3] == "ended", let partition = Int32(parts[0]),
            let offset = Int64(parts[1]), let bytes = Int(parts[2])
        else { return nil }
        self.init(partition: partition, offset: offset, bytes: bytes, isEnded: parts.count == 4)
    }

    var text: String { "\(self.partition):\(self.offset):\(self.bytes)\(self.isEnded ? ":ended" : "")" }
}

/// Reads the records of cold orders: one result for each, in order; nil if there is no such record.
public typealias ColdOrderRecords =
    @Sendable ([(key: OrderKey, record: PublishedRecord)]) async -> [Result<OrderRecord?, any Error>]

extension OrderStore {
    /// A cold order as Redis has it.
    struct ColdOrder: Sendable {
        let key: OrderKey
        let record: PublishedRecord
        let version: Int64
        let revision: Int64
        let hasDevices: Bool

        func stored(_ found: OrderRecord) -> StoredOrder {
            var order = StoredOrder(
                state: found.state(key: self.key), revision: self.revision, entityTag: "", shared: [],
                content: found.content ?? "", publishedVersion: String(self.version), documentBytes: self.record.bytes)
            (order.isCold, order.hasDevices) = (true, self.hasDevices)
            return order
        }
    }

    /// Reads cold orders from their records.
    func read(cold orders: [ColdOrder]) async -> [Result<StoredOrder, StoreError>] {
        guard let records = self.records else {
            return orders.map { .failure(StoreError(.cold, "reading order \($0.key): it is cold")) }
        }
        return zip(orders, await records(orders.map { ($0.key, $0.record) })).map { order, result in
            let what = "reading order \(order.key) from its record"
            switch result {
            case .success(let found?) where found.version == order.version: return .success(order.stored(found))
            case .success:
                return .failure(
                    StoreError(
                        .cold,
                        "\(what): it is not at offset \(order.record.offset) of partition \(order.record.partition); "
                            + "after a move to another Kafka cluster, or if the topic of orders was made anew, run "
                            + "waybill-packager restore"))
            case .failure(let error as RecordError): return .failure(StoreError(.corrupt, "\(what): \(error)"))
            case .failure(let error): return .failure(StoreError(.unavailable, "\(what): \(error)"))
            }
        }
    }
}
