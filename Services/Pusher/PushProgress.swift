import Kafka
import Model
import Synchronization

/// Whom the batch in hand has told already, and which registrations it took off.
///
/// Bounded: targets of one batch and their registrations. When another batch begins, all is forgotten.
final class PushProgress: Sendable {
    private struct State {
        var batch: [KafkaPosition] = []
        var done: Set<FanOut.Target> = []
        var ends: Set<RegistrationKey> = []
    }

    private let state = Mutex(State())

    /// Begins a batch, or begins it again.
    func begin(_ records: [KafkaRecord]) {
        let batch = records.map { KafkaPosition(topic: $0.topic, partition: $0.partition, offset: $0.offset) }
        self.state.withLock { state in
            if state.batch != batch { state = State(batch: batch) }
        }
    }

    func isDone(_ target: FanOut.Target) -> Bool { self.state.withLock { $0.done.contains(target) } }

    func finish(_ target: FanOut.Target) { _ = self.state.withLock { $0.done.insert(target) } }

    /// Registrations whose tombstones are published, and of which something newer may stand in Redis.
    var ends: Set<RegistrationKey> { self.state.withLock { $0.ends } }

    func beginEnd(of key: RegistrationKey) { _ = self.state.withLock { $0.ends.insert(key) } }

    func finishEnd(of key: RegistrationKey) { _ = self.state.withLock { $0.ends.remove(key) } }

    /// The batch is done: the same records again would be a redelivery, which tells all again.
    func end() { self.state.withLock { $0 = State() } }
}
