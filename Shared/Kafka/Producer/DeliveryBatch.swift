import CRDKafka
import Synchronization

/// The delivery reports of one call of `produce`: one slot per message, one continuation.
///
/// Lifetime: `lease` takes one +1 and the slots; the last report, or the end of queueing if all reports had arrived by
/// then, releases both. Each message gets exactly one result: from librdkafka's report if it was queued, from the
/// caller if not (rdkafka.h, rd_kafka_producev: no report for a message that was refused).
final class DeliveryBatch: Sendable {
    typealias Outcome = Result<KafkaPosition, KafkaError>

    /// The opaque of a queued message.
    @unsafe struct Slot {
        let batch: Unmanaged<DeliveryBatch>
        let index: Int
    }

    private struct State {
        var outcomes: [Outcome?]
        /// Messages without an outcome, and one for the queueing itself.
        var open: Int
        var continuation: CheckedContinuation<[Outcome], Never>?
    }

    private let state: Mutex<State>

    init(count: Int) {
        self.state = Mutex(State(outcomes: Array(repeating: nil, count: count), open: count + 1))
    }

    /// Allocates memory for the messages' opaques, and takes the +1 that goes with it.
    func lease(count: Int) -> UnsafeMutablePointer<Slot> {
        let retained = unsafe Unmanaged.passRetained(self)
        let slots = UnsafeMutablePointer<Slot>.allocate(capacity: count)
        for index in 0..<count {
            unsafe (slots + index).initialize(to: Slot(batch: retained, index: index))
        }
        return unsafe slots
    }

    /// Notes the outcome of a message that was refused immediately. Queueing is still open, so nothing ends here.
    func refuse(_ index: Int, _ error: KafkaError) {
        self.state.withLock { state in
            state.outcomes[index] = .failure(error)
            state.open -= 1
        }
    }

    /// Ends the queueing and waits for the last report, which `delivery.timeout.ms` bounds.
    func outcomes(_ slots: UnsafeMutablePointer<Slot>) async -> [Outcome] {
        await withCheckedContinuation { continuation in
            let finished: [Outcome]? = self.state.withLock { state in
                state.open -= 1
                if state.open == 0 { return Self.all(state.outcomes) }
                state.continuation = continuation
                return nil
            }
            if let finished {
                unsafe Self.release(slots)
                continuation.resume(returning: finished)
            }
        }
    }

    /// librdkafka's report of one message, on the polling thread. Source: rdkafka.h, rd_kafka_conf_set_dr_msg_cb
    static let report:
        @convention(c) (
            OpaquePointer?, UnsafePointer<rd_kafka_message_t>?, UnsafeMutableRawPointer?
        ) -> Void = { _, message, _ in
            guard let message = unsafe message, let opaque = unsafe message.pointee._private else { return }
            let slot = unsafe opaque.assumingMemoryBound(to: Slot.self)
            let index = unsafe slot.pointee.index
            let outcome = unsafe DeliveryBatch.outcome(message)
            let batch = unsafe slot.pointee.batch.takeUnretainedValue()

            let (continuation, outcomes) = batch.state.withLock { state in
                state.outcomes[index] = outcome
                state.open -= 1
                return state.open == 0 ? (state.continuation, DeliveryBatch.all(state.outcomes)) : (nil, [])
            }
            // Open messages keep the count above zero until queueing has ended, so the continuation exists.
            guard let continuation else { return }
            unsafe DeliveryBatch.release(slot - index)
            continuation.resume(returning: outcomes)
        }

    private static func outcome(_ message: UnsafePointer<rd_kafka_message_t>) -> Outcome {
        let name = unsafe rd_kafka_topic_name(message.pointee.rkt).map { unsafe String(cString: $0) } ?? ""
        let code = unsafe message.pointee.err
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
            // Our own limit is message.max.bytes, which is checked before a message is queued.
            let isTooLarge = code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE
            return .failure(
                KafkaError(
                    code, "producing to \(name)",
                    reason: isTooLarge ? "the message is larger than the topic's max.message.bytes" : nil))
        }
        // The offset is unknown (-1001) if the broker already had the message of an idempotent retry.
        let offset = unsafe max(-1, message.pointee.offset)
        return unsafe .success(KafkaPosition(topic: name, partition: message.pointee.partition, offset: offset))
    }

    /// Returns all outcomes. Every slot is filled when nothing is open; the default covers a bug of ours.
    private static func all(_ outcomes: [Outcome?]) -> [Outcome] {
        outcomes.map { $0 ?? .failure(KafkaError(.refused, "producing: no report")) }
    }

    private static func release(_ slots: UnsafeMutablePointer<Slot>) {
        let batch = unsafe slots.pointee.batch
        // Slots are trivial: an unmanaged reference and a number.
        unsafe slots.deallocate()
        unsafe batch.release()
    }
}
