import Kafka
import Synchronization

/// Whom the batch in hand has told already.
///
/// Bounded: targets of one batch. When another batch begins, all is forgotten.
final class PushProgress: Sendable {
    private struct State {
        var batch: [KafkaPosition] = []
        var done: Set<FanOut.Target> = []
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

    /// The batch is done: the same records again would be a redelivery, which tells all again.
    func end() { self.state.withLock { $0 = State() } }
}
