import CoreMetrics
import Kafka
import Logging
import Model
import Store

/// Puts registrations back from records of `waybill.registrations`.
struct RegistrationRestorer: Sendable {
    let registrations: Registrations
    let metrics: RestoreMetrics
    let logger: Logger

    /// Whether all of the records are to be seen in Redis, or something newer is.
    ///
    /// Throws whatever type: with a typed throw the optimizer of Swift 6.3.1 crashes where this is inlined.
    func stand(_ records: [KafkaRecord]) async throws -> Bool {
        try await self.registrations.stand(Self.items(records).items).allSatisfy(\.self)
    }

    /// - Throws: `StoreError`
    func restore(_ records: [KafkaRecord]) async throws(StoreError) {
        let (items, unreadable) = Self.items(records)
        for (origin, reason) in unreadable {
            self.metrics.refused.increment()
            self.logger.error(
                "a registration cannot be read", metadata: ["origin": "\(origin)", "reason": "\(reason)"])
        }
        try await self.registrations.restore(items)
        self.metrics.registrations.increment(by: items.count)
        self.metrics.records.increment(by: records.count)
    }

    private static func items(
        _ records: [KafkaRecord]
    ) -> (items: [Registrations.Restored], unreadable: [(origin: String, reason: String)]) {
        var items: [Registrations.Restored] = []
        var unreadable: [(origin: String, reason: String)] = []
        for record in OrderReplay.last(of: records) {
            do {
                let key = try RegistrationKey(String(decoding: record.key ?? [], as: UTF8.self))
                let registration = try record.value.map { try RegistrationRecord.decode($0) }
                // As the gateway stamped it: by the moment that it wrote down, else by that of the record.
                let stamp = RegistrationStamp(
                    offset: record.offset,
                    epochMilliseconds: registration?.registeredEpochMilliseconds ?? record.timestampMilliseconds)
                items.append(Registrations.Restored(key: key, registration: registration, stamp: stamp))
            } catch {
                unreadable.append(("\(record.topic)/\(record.partition)/\(record.offset)", "\(error)"))
            }
        }
        return (items, unreadable)
    }
}
