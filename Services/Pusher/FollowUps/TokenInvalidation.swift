import Kafka
import Model
import Store

/// Removes registrations whose push token is gone.
struct TokenInvalidation: Sendable {
    /// The most times that a registration is published if it keeps changing while it is being removed.
    private static let endLimit = 5

    /// Most other registrations of its device that are removed with one dead token; the rest follow when their orders
    /// change.
    private static let othersLimit = 200

    let topics: Topics
    let registrations: Registrations
    /// Prevents an entry that is not restored yet from counting as unregistered, as for `PushLookup`; nil trusts the
    /// present entries.
    let view: ViewEpochCache?
    let producer: KafkaProducer

    /// Removes a registration, unless it was renewed meanwhile. Calling it again is harmless.
    ///
    /// - Parameter progress: the steps done by an earlier attempt; the same for all attempts.
    /// - Returns: true if it was removed.
    /// - Throws: `StoreError` or `KafkaError`; it must then be retried.
    func retire(
        _ key: RegistrationKey, _ record: RegistrationRecord, _ progress: inout Progress
    ) async throws -> Bool {
        if !progress.isBuried {
            guard try await self.current(key) == record else { return false }
            // The tombstone first: while Kafka does not have it, Redis still has the entry, whose next notification
            // leads here again, so a crash in between does not bring the token back when Redis is restored.
            _ = try await self.producer.produce(
                KafkaMessage(topic: self.topics.registrations, key: Array(key.text.utf8), value: nil))
            progress.isBuried = true
        }
        if !progress.isTakenOff { progress.isTakenOff = try await self.registrations.retire(key, record) }
        try await self.publishEnd(of: key, current: try await self.current(key))
        return progress.isTakenOff
    }

    /// The progress of the retirement of one registration.
    struct Progress {
        /// True if its tombstone is published, and Redis may have a newer entry.
        var isBuried = false
        var isTakenOff = false
        /// True if nothing is left to be done.
        var isDone = false
    }

    /// Publishes the entry in Redis for a registration whose tombstone was published.
    ///
    /// The device may register again at any moment, and our tombstone may follow that record: a restored view would not
    /// have it. So the entry in Redis is published until it is unchanged after the broker has acknowledged it.
    ///
    /// - Parameter current: the entry last seen in Redis; nil corresponds to Kafka's tombstone.
    private func publishEnd(of key: RegistrationKey, current: RegistrationRecord?) async throws {
        var current = current
        var known: RegistrationRecord?
        for _ in 0..<Self.endLimit {
            // A device that keeps changing its registration is not waited for: the gateway publishes each change.
            if current == known { break }
            _ = try await self.producer.produce(
                KafkaMessage(topic: self.topics.registrations, key: Array(key.text.utf8), value: current?.encoded))
            known = current
            current = try await self.current(key)
        }
    }

    /// Returns the other registrations of the affected devices with the same token, which is gone: no device would be
    /// notified of these orders either, and each would cost a notification to find out.
    ///
    /// - Returns: at most `othersLimit`; none if the token was registered again, since it is then in use.
    func others(of dead: InvalidToken) async throws -> [(RegistrationKey, RegistrationRecord)] {
        var others: [RegistrationKey] = []
        guard let type = dead.registrations.first?.key.order.orderType else { return [] }
        for device in Set(dead.registrations.keys.map(\.device)) where others.count < Self.othersLimit {
            for order in try await self.registrations.orders(of: device, type: type) {
                let key = RegistrationKey(device: device, order: OrderKey(orderType: type, order: order))
                if dead.registrations[key] == nil { others.append(key) }
            }
        }
        others = Array(others.prefix(Self.othersLimit))
        let current = try await self.current(others)
        let isBack = current.values.contains { $0.pushToken == dead.token && !dead.means($0) }
        return isBack ? [] : current.filter { dead.means($0.value) }.map { ($0.key, $0.value) }
    }

    /// Returns those of some registrations that are present in a complete view.
    func current(_ keys: [RegistrationKey]) async throws -> [RegistrationKey: RegistrationRecord] {
        guard !keys.isEmpty else { return [:] }
        let epochs = try await self.view?.known()
        let records = try await self.registrations.registrations(keys)
        var current: [RegistrationKey: RegistrationRecord] = [:]
        for (key, record) in zip(keys, records) { current[key] = record }
        // A registration that was merely not restored yet would never be notified.
        if let epochs { try await self.view?.confirm(epochs) }
        return current
    }

    /// Returns the registration in a complete view; nil if there is none.
    private func current(_ key: RegistrationKey) async throws -> RegistrationRecord? {
        let epochs = try await self.view?.known()
        let current = try await self.registrations.registration(key)
        // A registration that was merely not restored yet would be lost permanently if published as ended.
        if let epochs { try await self.view?.confirm(epochs) }
        return current
    }
}
