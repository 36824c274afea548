import CoreMetrics
import Kafka
import Logging
import Model
import Store

/// Restores registrations from records of `waybill.registrations`.
struct RegistrationRestorer: Sendable {
    /// The number of passed-over records that the log names.
    private static let namedOrigins = 10

    let registrations: Registrations
    let metrics: RestoreMetrics
    let logger: Logger

    /// Returns true if Redis has what the records say, or something newer.
    ///
    /// The errors are untyped: with a typed throw the optimizer of Swift 6.3.1 crashes where this is inlined.
    func stand(_ records: [KafkaRecord]) async throws -> Bool {
        try await self.registrations.stand(Self.items(records).items).allSatisfy(\.self)
    }

    /// - Throws: `StoreError`
    func restore(_ records: [KafkaRecord]) async throws(StoreError) {
        let (items, unreadable) = Self.items(records)
        let damaged = try await self.registrations.restore(items)
        self.refuse(unreadable.map { ($0.origin, $0.reason) }, "cannot read registrations")
        self.refuse(
            damaged.map { ("\(items[$0.index].key.order)", $0.error.message) },
            "cannot restore registrations: Redis has other data under a key of the order or its device")
        self.metrics.registrations.increment(by: items.count - damaged.count)
        self.metrics.records.increment(by: records.count)
    }

    /// Skips what cannot be restored, so that it delays nothing else. Logs one line for a chunk, since there may be
    /// very many.
    private func refuse(_ refused: [(origin: String, reason: String)], _ what: Logger.Message) {
        guard let first = refused.first else { return }
        self.metrics.refused.increment(by: refused.count)
        let origins = refused.prefix(Self.namedOrigins).map(\.origin).joined(separator: ", ")
        self.logger.error(
            what, metadata: ["count": "\(refused.count)", "origins": "\(origins)", "reason": "\(first.reason)"])
    }

    private static func items(
        _ records: [KafkaRecord]
    ) -> (items: [Registrations.Restored], unreadable: [(origin: String, reason: String)]) {
        var items: [Registrations.Restored] = []
        var unreadable: [(origin: String, reason: String)] = []
        for record in NewestRecords.last(of: records) {
            do {
                let key = try RegistrationKey(String(decoding: record.key ?? [], as: UTF8.self))
                let registration = try record.value.map { try RegistrationRecord.decode($0) }
                // As the gateway stamped it: with the time in the registration, else with the record's timestamp.
                let stamp = RegistrationStamp(
                    offset: record.offset,
                    epochMilliseconds: registration?.registeredEpochMilliseconds ?? record.timestampMilliseconds,
                    cluster: record.cluster, partition: record.partition)
                items.append(Registrations.Restored(key: key, registration: registration, stamp: stamp))
            } catch {
                unreadable.append(("\(record.topic)/\(record.partition)/\(record.offset)", "\(error)"))
            }
        }
        return (items, unreadable)
    }
}
