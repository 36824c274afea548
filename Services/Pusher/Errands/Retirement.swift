import Kafka
import Model
import Store

/// Takes registrations off whose push token is gone.
struct Retirement: Sendable {
    /// How often a registration is published that keeps changing while it is taken off.
    private static let endLimit = 5

    /// Most other registrations of its device that one dead token takes with it; the rest follow when they change.
    private static let othersLimit = 200

    let topics: Topics
    let registrations: Registrations
    /// Of the same kind as the lookups', for the same reason.
    let view: ViewWatch?
    let producer: KafkaProducer

    /// Takes a registration off, unless it was renewed meanwhile. Again is harmless.
    ///
    /// - Parameter progress: what an earlier try did; the same for all tries.
    /// - Returns: whether it was taken off.
    /// - Throws: `StoreError` or `KafkaError`; then it has to be tried again.
    func retire(
        _ key: RegistrationKey, _ record: RegistrationRecord, _ progress: inout Progress
    ) async throws -> Bool {
        if !progress.isBuried {
            guard try await self.standing(key) == record else { return false }
            // The tombstone first: as long as Kafka does not have it, Redis has what leads here again, so no death in
            // between brings the token back when Redis is restored.
            _ = try await self.producer.produce(
                KafkaMessage(topic: self.topics.registrations, key: Array(key.text.utf8), value: nil))
            progress.isBuried = true
        }
        if !progress.isTakenOff { progress.isTakenOff = try await self.registrations.retire(key, record) }
        try await self.publishEnd(of: key, standing: try await self.standing(key))
        return progress.isTakenOff
    }

    /// How far the retirement of one registration has come.
    struct Progress {
        /// Its tombstone is published, and something newer may stand in Redis.
        var isBuried = false
        var isTakenOff = false
        /// Nothing is left to be done.
        var isDone = false
    }

    /// Publishes what stands in Redis of a registration whose tombstone was published.
    ///
    /// The device may register again at any moment, and our tombstone may come behind that record: a restored view
    /// would not have it. So what stands in Redis is published, until it still stands when the broker has it.
    ///
    /// - Parameter standing: what was seen in Redis last; nil is what Kafka has.
    private func publishEnd(of key: RegistrationKey, standing: RegistrationRecord?) async throws {
        var standing = standing
        var known: RegistrationRecord?
        for _ in 0..<Self.endLimit {
            // A device that keeps changing its mind is not waited for: it publishes each change itself.
            if standing == known { break }
            _ = try await self.producer.produce(
                KafkaMessage(topic: self.topics.registrations, key: Array(key.text.utf8), value: standing?.encoded))
            known = standing
            standing = try await self.standing(key)
        }
    }

    /// What else the devices behind a dead token are registered for with it: nobody would be told of these orders
    /// either, and each would cost a notification to find out.
    ///
    /// - Returns: at most `othersLimit`; none when the token was registered again, since then it is no dead one.
    func others(of dead: DeadToken) async throws -> [(RegistrationKey, RegistrationRecord)] {
        var others: [RegistrationKey] = []
        guard let type = dead.registrations.first?.key.order.orderType else { return [] }
        for device in Set(dead.registrations.keys.map(\.device)) where others.count < Self.othersLimit {
            for order in try await self.registrations.orders(of: device, type: type) {
                let key = RegistrationKey(device: device, order: OrderKey(orderType: type, order: order))
                if dead.registrations[key] == nil { others.append(key) }
            }
        }
        others = Array(others.prefix(Self.othersLimit))
        let standing = try await self.standing(others)
        let isBack = standing.values.contains { $0.pushToken == dead.token && !dead.means($0) }
        return isBack ? [] : standing.filter { dead.means($0.value) }.map { ($0.key, $0.value) }
    }

    /// Which of some registrations stand in a complete view.
    func standing(_ keys: [RegistrationKey]) async throws -> [RegistrationKey: RegistrationRecord] {
        guard !keys.isEmpty else { return [:] }
        let epochs = try await self.view?.known()
        let records = try await self.registrations.registrations(keys)
        var standing: [RegistrationKey: RegistrationRecord] = [:]
        for (key, record) in zip(keys, records) { standing[key] = record }
        // One that was only not restored yet would never be told.
        if let epochs { try await self.view?.confirm(epochs) }
        return standing
    }

    /// The registration that stands in a complete view.
    private func standing(_ key: RegistrationKey) async throws -> RegistrationRecord? {
        let epochs = try await self.view?.known()
        let standing = try await self.registrations.registration(key)
        // Published as ended, a registration that was only not restored yet would be lost for good.
        if let epochs { try await self.view?.confirm(epochs) }
        return standing
    }
}
