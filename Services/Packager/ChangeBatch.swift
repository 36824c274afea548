import Kafka
import Model

/// The records of one batch, decoded and sorted by order.
///
/// The changes of one order keep the order in which they came; that of different orders does not matter.
struct ChangeBatch {
    /// A record that is no change which could be applied.
    struct Refused {
        let record: KafkaRecord
        let fault: ChangeFault
    }

    /// All changes of one order.
    struct Order {
        let key: OrderKey
        /// Never empty.
        var changes: [(record: KafkaRecord, change: OrderChange)]
    }

    private(set) var orders: [Order] = []
    private(set) var refused: [Refused] = []

    /// - Parameter isServed: whether a brand is there for an order type.
    init(_ records: [KafkaRecord], isServed: (OrderTypeIdentifier) -> Bool) {
        var places: [OrderKey: Int] = [:]
        for record in records {
            do throws(ChangeFault) {
                let change = try OrderChange.decode(
                    key: record.key, value: record.value, headers: record.headers.map { ($0.name, $0.value) })
                guard isServed(change.key.orderType) else {
                    throw ChangeFault(
                        code: .unknownOrderType,
                        reason: "no brand is loaded for order type \(change.key.orderType): add one or correct the key")
                }
                if let place = places[change.key] {
                    self.orders[place].changes.append((record, change))
                } else {
                    places[change.key] = self.orders.count
                    self.orders.append(Order(key: change.key, changes: [(record, change)]))
                }
            } catch {
                self.refused.append(Refused(record: record, fault: error))
            }
        }
    }
}

extension ChangePosition {
    init(_ record: KafkaRecord) {
        self.init(
            partition: record.partition, offset: record.offset, timestampMilliseconds: record.timestampMilliseconds)
    }
}
