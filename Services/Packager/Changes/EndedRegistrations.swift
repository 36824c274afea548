import Kafka
import Model
import Store

/// The end of registrations whose order was removed: a tombstone each, then off Redis.
///
/// A worker that stood still may do this when the order has come again and devices are registered anew. So whether the
/// removal still stands is read behind who is registered, and only then does anybody's registration end. Who came
/// behind our tombstone has a higher offset and stays by its stamp. Who came between the reading and the tombstone did
/// so because the order stood again, which is seen behind the acknowledgement; then only the registration that was read
/// is taken off, and one that stands all the same is published again, behind the tombstone that was wrong.
struct EndedRegistrations: Sendable {
    let topics: Topics
    let store: OrderStore
    let registrations: Registrations
    let producer: KafkaProducer

    /// A registration that ends.
    struct Ended: Sendable {
        /// Of the order in its batch.
        let place: Int
        let key: RegistrationKey
        /// What was read of it.
        let record: RegistrationRecord
        /// Not before its registration, whatever the clocks say.
        let epochMilliseconds: Int64
        /// Of the tombstone, -1 until it is known.
        var offset: Int64 = -1
    }

    /// Who is registered for orders that are gone.
    func find(
        ofRemoved told: [ChangeProcessor.Passage], now: Int64, _ verdicts: inout Verdicts
    ) async -> [Ended] {
        let removed = told.filter { $0.work.state?.isRemoved == true }
        guard !removed.isEmpty else { return [] }
        do {
            let devices = try await self.registrations.devices(of: removed.map(\.work.key))
            let standing = try await self.store.versions(of: removed.map(\.work.key))
            return zip(removed, zip(devices, standing)).flatMap { passage, found in
                (found.1 == passage.work.state?.version ? found.0 : []).map { device in
                    Ended(
                        place: passage.place, key: RegistrationKey(device: device.device, order: passage.work.key),
                        record: device.registration,
                        epochMilliseconds: max(now, device.registration.registeredEpochMilliseconds))
                }
            }
        } catch {
            verdicts.postpone(removed.map(\.place), "\(error)")
            return []
        }
    }

    func tombstone(_ ended: Ended) -> KafkaMessage {
        KafkaMessage(topic: self.topics.registrations, key: Array(ended.key.text.utf8), value: nil)
    }

    /// Takes registrations off whose tombstones are acknowledged.
    ///
    /// - Parameter overtaken: orders of which another version than the removal stands by now.
    func takeOff(_ all: [Ended], overtaken: Set<OrderKey>, _ verdicts: inout Verdicts) async {
        for ended in all {
            do {
                if overtaken.contains(ended.key.order) {
                    try await self.leaveNewer(ended)
                } else {
                    let stamp = RegistrationStamp(offset: ended.offset, epochMilliseconds: ended.epochMilliseconds)
                    try await self.registrations.unregister(ended.key, at: stamp)
                }
            } catch {
                verdicts.postpone(ended.place, "\(error)")
            }
        }
    }

    private func leaveNewer(_ ended: Ended) async throws {
        if try await self.registrations.retire(ended.key, ended.record) { return }
        guard let standing = try await self.registrations.registration(ended.key) else { return }
        _ = try await self.producer.produce(
            KafkaMessage(
                topic: self.topics.registrations, key: Array(ended.key.text.utf8), value: standing.encoded))
    }
}
