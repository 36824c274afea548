import Kafka
import Model

/// The content of a removed order's tombstone, so that its restored trace keeps version, token and positions.
enum RemovedOrder {
    static let header = "waybill-removed"

    /// Returns the headers of an order's record; none unless it is removed. The trace is the record that the order
    /// would have, with an empty document.
    static func headers(of state: OrderState) -> [KafkaHeader] {
        guard state.isRemoved else { return [] }
        let trace = OrderRecord(state, recipe: PackageRecipe(assets: [], entityTag: "removed")).encoded
        return [KafkaHeader(name: Self.header, value: trace)]
    }

    /// - Throws: `RecordError`
    static func state(_ key: OrderKey, _ trace: [UInt8]) throws(RecordError) -> OrderState {
        var state = try OrderRecord.decode(trace).state(key: key)
        state.document = .empty
        state.isRemoved = true
        return state
    }
}
