import Kafka
import Model
import Operations

/// The work of one batch, decoded: one order for each key.
struct ChangeBatch {
    /// The availability of an order type's brand.
    enum BrandAvailability: Hashable, Sendable {
        /// Its brand is loaded.
        case served
        /// There is a brand that cannot be loaded now, for this reason.
        case awaited(String)
        /// There is no brand.
        case unknown
    }

    private(set) var orders: [BatchOrder] = []
    private(set) var refused: [RefusedRecord] = []
    /// Work that must wait for a brand, and why.
    private(set) var awaiting: [(place: Int, reason: String)] = []

    /// - Parameter availability: returns the availability of an order type's brand, the same during the call.
    init(_ works: [KeyedWork], availability: (OrderTypeIdentifier) -> BrandAvailability) {
        for (place, work) in works.enumerated() {
            // One key names one order: a change whose subject differs from its key is refused.
            var changes: [BatchOrder.Change] = []
            var reason: String?
            for record in work.records {
                do throws(ChangeFault) {
                    let change = try OrderChange.decode(
                        key: record.key, value: record.value, headers: record.headers.map { ($0.name, $0.value) })
                    switch availability(change.key.orderType) {
                    case .served: changes.append((record, change))
                    case .awaited(let why): reason = why
                    case .unknown:
                        throw ChangeFault(
                            code: .unknownOrderType,
                            reason: "no brand is loaded for order type \(change.key.orderType): "
                                + "add one or correct the key")
                    }
                } catch {
                    self.refused.append(RefusedRecord(place: place, record: record, fault: error))
                }
            }
            if let reason {
                self.awaiting.append((place, reason))
            } else if let key = changes.first?.change.key {
                self.orders.append(BatchOrder(place: place, key: key, changes: changes))
            }
        }
    }
}
