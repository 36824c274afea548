import Model
import Store

/// Finds out who has to be told of a batch.
struct PushLookup: Sendable {
    /// Somebody to tell.
    struct Found: Sendable {
        let orderType: OrderTypeIdentifier
        let order: OrderIdentifier
        let device: DeviceIdentifier
        let registration: RegistrationRecord
        /// For the sake of which records, as indices of the batch.
        let records: [Int]
    }

    let registrations: Registrations
    /// Sees to it that nobody counts as unregistered who only is not there yet; nil believes what is there.
    let view: ViewWatch?

    /// - Throws: `StoreError`; then nobody was looked up.
    func look(_ batch: PushBatch) async throws -> [Found] {
        if batch.changed.isEmpty, batch.registered.isEmpty { return [] }
        let epochs = try await self.view?.known()
        var found: [Found] = []
        let devices = try await self.registrations.devices(of: batch.changed.map(\.order))
        for (changed, registered) in zip(batch.changed, devices) {
            for one in registered {
                found.append(
                    Found(
                        orderType: changed.order.orderType, order: changed.order.order, device: one.device,
                        registration: one.registration, records: changed.records))
            }
        }
        let late = Array(batch.registered)
        let modified = try await self.registrations.modified(late.map(\.key.order))
        for ((key, new), modified) in zip(late, modified) where PushBatch.isSoon(new.registration, after: modified) {
            found.append(
                Found(
                    orderType: key.order.orderType, order: key.order.order, device: key.device,
                    registration: new.registration, records: [new.record]))
        }
        if let epochs { try await self.view?.confirm(epochs) }
        return found
    }
}
