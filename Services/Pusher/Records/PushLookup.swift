import FoundationEssentials
package import Model
import Store

/// Finds the devices that must be notified of a batch.
package struct PushLookup: Sendable {
    /// A device to notify.
    package struct Found: Sendable {
        let orderType: OrderTypeIdentifier
        let order: OrderIdentifier
        let device: DeviceIdentifier
        let registration: RegistrationRecord
        /// The records that concern it, as indices of the batch.
        let records: [Int]

        package init(
            orderType: OrderTypeIdentifier, order: OrderIdentifier, device: DeviceIdentifier,
            registration: RegistrationRecord, records: [Int]
        ) {
            self.orderType = orderType
            self.order = order
            self.device = device
            self.registration = registration
            self.records = records
        }
    }

    let registrations: Registrations
    /// Prevents an entry that is not restored yet from counting as unregistered; nil trusts the present entries.
    let view: MaterializedView?
    /// Milliseconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }
    /// The age from which a registration that Redis does not have is not looked up again: far more than a gateway takes
    /// to write it after its record, and than clocks differ.
    private static let settlingMilliseconds: Int64 = 60_000

    /// The result of a lookup.
    struct Outcome: Sendable {
        var found: [Found] = []
        /// Devices to notify only because they registered soon after a change.
        var registered: [Found] = []
        /// The number of devices that are not notified, since their orders have more devices than are notified of one
        /// change.
        var skipped = 0
        /// The errors of orders that cause no notifications: Redis has an invalid value for them, and a retry does not
        /// help.
        var damaged: [StoreError] = []
        /// Keys whose own lookup failed.
        var failed: Set<PendingPushKey> = []
        /// The error of one of them.
        var failure: StoreError?
        /// Registrations that Redis does not have yet: a change that arrived meanwhile did not find them, and their
        /// lookup did not find the change. They are looked up once more.
        var unsettled: Set<PendingPushKey> = []
    }

    /// - Throws: `StoreError`; then no device was looked up.
    func find(_ batch: PushBatch) async throws(StoreError) -> Outcome {
        var outcome = Outcome()
        if batch.isEmpty { return outcome }
        let late = Array(batch.registered)
        let lookup = try await self.registrations.look(
            up: batch.changed.map(\.order),
            modified: late.map(\.key.order) + batch.awaited.map(\.key.order),
            registrations: late.map(\.key) + batch.awaited.map(\.key), in: self.view)
        for (changed, audience) in zip(batch.changed, lookup.audiences) {
            guard let audience = outcome.unwrap(audience, of: PendingPushKey(order: changed.order)) else { continue }
            outcome.skipped += audience.skipped
            for one in audience.devices {
                outcome.found.append(
                    Found(
                        orderType: changed.order.orderType, order: changed.order.order, device: one.device,
                        registration: one.registration, records: changed.records))
            }
        }
        for ((key, new), (modified, current)) in zip(late, zip(lookup.modified, lookup.registrations)) {
            guard let modified = outcome.unwrap(modified, of: PendingPushKey(key)) else { continue }
            guard PushBatch.isSoon(new.registration, after: modified) else {
                if case .success(let current) = current, self.isUnsettled(new.registration, current) {
                    outcome.unsettled.insert(PendingPushKey(key))
                }
                continue
            }
            outcome.registered.append(
                Found(
                    orderType: key.order.orderType, order: key.order.order, device: key.device,
                    registration: new.registration, records: [new.record]))
        }
        // Devices that are parked individually, with their current push tokens.
        let pairs = zip(lookup.registrations.dropFirst(late.count), lookup.modified.dropFirst(late.count))
        for (awaited, (registration, modified)) in zip(batch.awaited, pairs) {
            let key = PendingPushKey(awaited.key)
            guard let modified = outcome.unwrap(modified, of: key),
                let registration = outcome.unwrap(registration, of: key) ?? nil,
                awaited.registeredEpochMilliseconds == nil || PushBatch.isSoon(registration, after: modified)
            else { continue }
            let found = Found(
                orderType: awaited.key.order.orderType, order: awaited.key.order.order, device: awaited.key.device,
                registration: registration, records: awaited.records)
            if awaited.registeredEpochMilliseconds == nil {
                outcome.found.append(found)
            } else {
                outcome.registered.append(found)
            }
        }
        return outcome
    }

    /// Returns true if the gateway may be about to write a registration whose record was read.
    private func isUnsettled(_ registration: RegistrationRecord, _ current: RegistrationRecord?) -> Bool {
        let moment = registration.registeredEpochMilliseconds
        return self.now() - moment < Self.settlingMilliseconds
            && current.map { $0.registeredEpochMilliseconds < moment } ?? true
    }
}

extension PushLookup.Found {
    var key: RegistrationKey {
        RegistrationKey(device: self.device, order: OrderKey(orderType: self.orderType, order: self.order))
    }
}

extension PushLookup.Outcome {
    fileprivate mutating func unwrap<Value>(_ result: Result<Value, StoreError>, of key: PendingPushKey) -> Value? {
        switch result {
        case .success(let value): return value
        case .failure(let error) where error.code == .corrupt: self.damaged.append(error)
        case .failure(let error):
            self.failure = error
            self.failed.insert(key)
        }
        return nil
    }
}
