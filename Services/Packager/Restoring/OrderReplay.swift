import Kafka
import Model

/// The orders to restore from records of `waybill.orders`: of each order the last record.
struct OrderReplay {
    /// An order as Kafka knows it.
    enum Item: Sendable {
        case version(OrderKey, OrderRecordText)
        case removed(OrderState)
        /// Removed; only the time is known.
        case forgotten(OrderKey, epochMilliseconds: Int64)

        var key: OrderKey {
            switch self {
            case .version(let key, _), .forgotten(let key, _): key
            case .removed(let state): state.key
            }
        }
    }

    private(set) var items: [(item: Item, offset: Int64)] = []
    /// The origins of records that cannot be read, with the reasons.
    private(set) var unreadable: [(origin: String, reason: String)] = []

    init(_ records: [KafkaRecord]) {
        for record in Self.last(of: records) {
            do {
                self.items.append((try Self.item(record), record.offset))
            } catch {
                self.unreadable.append(("\(record.topic)/\(record.partition)/\(record.offset)", "\(error)"))
            }
        }
    }

    /// Returns the last record of each key, in the order of their offsets.
    static func last(of records: [KafkaRecord]) -> [KafkaRecord] {
        var seen: Set<[UInt8]> = []
        return records.reversed().filter { seen.insert($0.key ?? []).inserted }.reversed()
    }

    private static func item(_ record: KafkaRecord) throws -> Item {
        let key = try OrderKey(String(decoding: record.key ?? [], as: UTF8.self))
        if let value = record.value { return .version(key, try OrderRecordText(value)) }
        guard let trace = record.headers.last(where: { $0.name == RemovedOrder.header })?.value else {
            return .forgotten(key, epochMilliseconds: record.timestampMilliseconds)
        }
        return .removed(try RemovedOrder.state(key, trace))
    }
}
