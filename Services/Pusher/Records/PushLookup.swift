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
        if batch.isEmpty { return [] }
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
        found += try await self.awaited(batch)
        if let epochs { try await self.view?.confirm(epochs) }
        return found
    }

    /// Devices that stand for themselves, with the push tokens that they have now.
    private func awaited(_ batch: PushBatch) async throws -> [Found] {
        if batch.awaited.isEmpty { return [] }
        let orders = batch.awaited.map(\.key.order)
        let devices = try await self.registrations.devices(of: orders)
        let modified = try await self.registrations.modified(orders)
        var found: [Found] = []
        for (index, awaited) in batch.awaited.enumerated() {
            guard let one = devices[index].first(where: { $0.device == awaited.key.device }) else { continue }
            if awaited.registeredEpochMilliseconds != nil,
                !PushBatch.isSoon(one.registration, after: modified[index])
            {
                continue
            }
            found.append(
                Found(
                    orderType: orders[index].orderType, order: orders[index].order, device: one.device,
                    registration: one.registration, records: awaited.records))
        }
        return found
    }
}
