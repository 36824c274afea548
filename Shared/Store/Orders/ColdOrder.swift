import Cryptography
public import Model
import Redis

/// The last record of an order on `waybill.orders`.
///
/// Redis has it as text: `<partition>:<offset>:<bytes>:<cluster>`, followed by `:ended` if the order ended with it.
public struct PublishedRecord: Hashable, Sendable {
    /// A number that tells clusters apart.
    let cluster: UInt32
    public let partition: Int32
    /// Compaction keeps it.
    public let offset: Int64
    /// Bytes of its value.
    public let bytes: Int
    /// True if the order is completed or cancelled.
    public let isEnded: Bool

    /// - Parameter cluster: the identifier of the cluster.
    /// - Returns: nil if the broker did not tell the offset.
    public init?(cluster: String, partition: Int32, offset: Int64, bytes: Int, isEnded: Bool) {
        guard offset >= 0 else { return nil }
        self.init(Self.number(of: cluster), partition: partition, offset: offset, bytes: bytes, isEnded: isEnded)
    }

    private static func number(of cluster: String) -> UInt32 {
        var hash = FNV1a()
        hash.combine(cluster.utf8)
        return UInt32(truncatingIfNeeded: hash.value)
    }

    private init(_ cluster: UInt32, partition: Int32, offset: Int64, bytes: Int, isEnded: Bool) {
        self.cluster = cluster
        self.partition = partition
        self.offset = offset
        self.bytes = bytes
        self.isEnded = isEnded
    }

    /// Returns true if it is a record of a cluster with this identifier.
    public func isIn(cluster: String) -> Bool { self.cluster == Self.number(of: cluster) }

    /// Nil for a text that is not one of ours, and for an empty one.
    init?(_ text: String) {
        let parts = parts(text)
        guard parts.count == 4 || parts.count == 5 && parts[4] == "ended", let partition = Int32(parts[0]),
            let offset = Int64(parts[1]), offset >= 0, let bytes = Int(parts[2]),
            let cluster = UInt32(parts[3], radix: 16)
        else { return nil }
        self.init(cluster, partition: partition, offset: offset, bytes: bytes, isEnded: parts.count == 5)
    }

    /// The cluster has eight digits.
    var text: String {
        let bytes = [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: self.cluster >> $0) }
        let cluster = String(decoding: Hexadecimal.digits(bytes), as: UTF8.self)
        return "\(self.partition):\(self.offset):\(self.bytes):\(cluster)\(self.isEnded ? ":ended" : "")"
    }

    /// The text in place of a record that is not known yet. If something was written that the last one does not have
    /// it is empty, which a Redis that is full takes.
    static let awaited = "-"
}

extension StoreScripts {
    /// Returns true if a standing record is behind another one of its partition, or is that one.
    static let isAsNew = """
        local function isAsNew(standing, record)
          local partition, offset, cluster = string.match(standing or '', '^(%d+):(%d+):%d+:(%x+)')
          local others, at, where = string.match(record, '^(%d+):(%d+):%d+:(%x+)')
          return partition and partition == others and cluster == where and tonumber(offset) >= tonumber(at)
        end

        """
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
        /// As `publishedVersion` of `StoredOrder`.
        let told: String
        /// Those of Redis; nil if it has none.
        let token: AuthenticationToken?
        let modifiedEpochSeconds: Int64?

        /// All that Redis has of it.
        var remains: StoredOrder? {
            guard let token = self.token, let modified = self.modifiedEpochSeconds else { return nil }
            var order = StoredOrder(
                state: OrderState(
                    key: self.key, document: .empty, token: token, version: self.version,
                    modifiedEpochSeconds: modified), revision: self.revision, entityTag: "", shared: [])
            (order.isCold, order.hasDevices) = (true, self.hasDevices)
            return order
        }

        func stored(_ found: OrderRecord) -> StoredOrder {
            var order = StoredOrder(
                state: found.state(key: self.key), revision: self.revision, entityTag: "", shared: [],
                content: found.content ?? "", publishedVersion: self.told, record: self.record,
                documentBytes: self.record.bytes)
            (order.isCold, order.hasDevices) = (true, self.hasDevices)
            return order
        }
    }

    /// Reads cold orders from their records.
    func read(cold orders: [ColdOrder]) async -> [Result<StoredOrder, StoreError>] {
        guard let records = self.records else {
            return orders.map { .failure(StoreError(cold: $0)) }
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
                            + "waybill-packager restore", remains: order.remains))
            case .failure(let error as RecordError):
                return .failure(StoreError(.corrupt, "\(what): \(error)", remains: order.remains))
            case .failure(let error): return .failure(StoreError(.unread, "\(what): \(error)"))
            }
        }
    }
}

/// The facts about an order that could not be read.
struct UnreadOrderFacts: StoreErrorFacts {
    var remains: OrderStore.StoredOrder?
    /// True if the remains have the traces of all changes that were applied.
    var knowsChanges = false
    var record: PublishedRecord?
}

extension StoreError {
    /// The order without its document and all else that cannot be read, which a removal and a replacement need not; nil
    /// if it may be read later, or if too little is left.
    public var remains: OrderStore.StoredOrder? { (self.facts as? UnreadOrderFacts)?.remains }

    /// True if a change that was applied is known by the remains.
    public var knowsChanges: Bool { (self.facts as? UnreadOrderFacts)?.knowsChanges ?? false }

    /// The record of a cold order that was not looked for.
    var record: PublishedRecord? { (self.facts as? UnreadOrderFacts)?.record }

    init(_ code: Code, _ message: String, remains: OrderStore.StoredOrder?, knowsChanges: Bool = false) {
        self.init(code, message, facts: remains.map { UnreadOrderFacts(remains: $0, knowsChanges: knowsChanges) })
    }

    init(cold order: OrderStore.ColdOrder) {
        self.init(.cold, "reading order \(order.key): it is cold", facts: UnreadOrderFacts(record: order.record))
    }
}
