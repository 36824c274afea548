import Kafka
import Model
import Store

/// Moves registrations out of a partition of `waybill.registrations` that is no longer theirs.
///
/// Offsets of two partitions cannot be compared, so timestamps decide: the tombstone in the old partition is a little
/// later than the registration there, and the registration in the new one later still, by more than `RegistrationStamp`
/// calls a race. So a restore takes the new one, whichever of the two it reads first.
struct RegistrationMove: Sendable {
    /// The times from a registration to its tombstone's timestamp, and to the one under which it is published again.
    static let (endMilliseconds, againMilliseconds): (Int64, Int64) = (30_000, 95_000)
    /// The time after which a gateway that was just ending a registration has done so in Redis.
    static let patience = Duration.seconds(5)

    let run: RekeyRun
    let registrations: Registrations
    let view: ViewEpochCache
    let topics: Topics
    var patience = Self.patience

    func move(
        _ values: [[UInt8]: [UInt8]], from partition: Int32
    ) async throws -> (RekeyTally, RekeyRun.Ending?) {
        var tally = RekeyTally()
        var ends: [KafkaMessage] = []
        var old: [(key: RegistrationKey, record: RegistrationRecord)] = []
        for (bytes, value) in values {
            guard let key = try? RegistrationKey(String(decoding: bytes, as: UTF8.self)),
                let record = try? RegistrationRecord.decode(value)
            else {
                tally.left += 1
                continue
            }
            old.append((key, record))
            ends.append(
                KafkaMessage(
                    topic: self.topics.registrations, partition: partition, key: bytes, value: nil,
                    headers: [OrderRecord.silence],
                    timestampMilliseconds: max(1, record.registeredEpochMilliseconds + Self.endMilliseconds)))
        }
        var moved: [(key: RegistrationKey, record: RegistrationRecord)] = []
        for ((key, record), standing) in zip(old, try await self.standing(old.map(\.key))) {
            guard var standing else { continue }
            let moment = record.registeredEpochMilliseconds + Self.againMilliseconds
            // A much newer one was published to the right partition by the gateway that accepted it.
            guard standing.registeredEpochMilliseconds < moment else { continue }
            standing.registeredEpochMilliseconds = moment
            moved.append((key, standing))
        }
        try await self.publish(moved)
        let keys = moved.map(\.key)
        // If a gateway was ending a registration in the meantime, its tombstone precedes our record.
        if !keys.isEmpty { try await self.bury(keys) }
        tally.moved += keys.count
        tally.ended += old.count - keys.count
        return (
            tally,
            { [ends] in
                if !keys.isEmpty {
                    try await Task.sleep(for: self.patience)
                    try await self.bury(keys)
                }
                // Last: without the published records, these tombstones would remove registrations that exist.
                try await self.run.produce(ends)
            }
        )
    }

    private func publish(_ moved: [(key: RegistrationKey, record: RegistrationRecord)]) async throws {
        let messages = moved.map {
            KafkaMessage(
                topic: self.topics.registrations, key: Array($0.key.text.utf8), value: $0.record.encoded,
                headers: [OrderRecord.silence])
        }
        var items: [Registrations.Restored] = []
        for ((key, record), outcome) in zip(moved, await self.run.producer.produce(messages)) {
            switch outcome {
            case .success(let position):
                let stamp = RegistrationStamp(
                    offset: position.offset, epochMilliseconds: record.registeredEpochMilliseconds,
                    cluster: self.run.producer.cluster, partition: position.partition)
                items.append(Registrations.Restored(key: key, registration: record, stamp: stamp))
            case .failure(let error):
                throw RetriableFailure(
                    description: "moving registrations: \(error.message)", origin: FailureOrigin(.kafka, .everything))
            }
        }
        // As in a restore: only registrations that ended since then stay ended.
        try await self.registrations.restore(items)
    }

    /// Publishes tombstones for registrations that no longer exist.
    private func bury(_ keys: [RegistrationKey]) async throws {
        let gone = zip(keys, try await self.standing(keys)).filter { $0.1 == nil }.map(\.0)
        try await self.run.produce(
            gone.map { KafkaMessage(topic: self.topics.registrations, key: Array($0.text.utf8), value: nil) })
    }

    /// Returns the registrations that are stored in a complete view.
    private func standing(_ keys: [RegistrationKey]) async throws -> [RegistrationRecord?] {
        let epochs = try await self.view.known()
        let standing = try await self.registrations.registrations(keys)
        try await self.view.confirm(epochs)
        return standing
    }
}
