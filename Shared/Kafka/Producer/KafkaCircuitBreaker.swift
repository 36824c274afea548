import Synchronization

/// Keeps requests from piling up while Kafka is away.
///
/// As long as Kafka answers, many may wait for it. After a delivery has failed, only one at a time is tried: the others
/// are refused immediately until one was delivered. The one being tried is delivered as soon as Kafka is back. Bounded:
/// `limit` deliveries wait, each for at most the time limit of the producer.
public final class KafkaCircuitBreaker: Sendable {
    /// The decision, without a lock.
    struct State: Hashable, Sendable {
        let limit: Int
        private(set) var waiting = 0
        private(set) var isAway = false

        init(limit: Int) { self.limit = limit }

        /// True if a delivery may be tried.
        var isOpen: Bool { self.waiting < (self.isAway ? 1 : self.limit) }

        /// - Returns: true if a delivery may be tried; the caller must then call `leave`.
        mutating func enter() -> Bool {
            guard self.isOpen else { return false }
            self.waiting += 1
            return true
        }

        /// - Parameter failure: the reason why the message was not delivered; nil: it was. A failure of the message
        ///   alone says nothing about Kafka.
        mutating func leave(after failure: KafkaError.Code?) {
            self.waiting -= 1
            switch failure {
            case nil: self.isAway = false
            case .messageTooLarge, .cancelled: break
            default: self.isAway = true
            }
        }
    }

    private let state: Mutex<State>

    /// - Parameter limit: the most deliveries that may wait while Kafka answers.
    public init(limit: Int = 2000) { self.state = Mutex(State(limit: limit)) }

    /// Checks if a delivery would be tried, before anything is spent on it.
    ///
    /// - Throws: `.transport` if not.
    public func check(_ topic: String) throws(KafkaError) {
        guard self.state.withLock({ $0.isOpen }) else { throw Self.refusal(topic) }
    }

    /// Produces a message unless Kafka is known to be away or too many wait.
    ///
    /// - Throws: `.transport` immediately if it is not tried; otherwise the errors of the producer.
    public func produce(_ message: KafkaMessage, with producer: KafkaProducer) async throws(KafkaError) -> KafkaPosition
    {
        guard self.state.withLock({ $0.enter() }) else { throw Self.refusal(message.topic) }
        do throws(KafkaError) {
            let position = try await producer.produce(message)
            self.state.withLock { $0.leave(after: nil) }
            return position
        } catch {
            self.state.withLock { $0.leave(after: error.code) }
            throw error
        }
    }

    private static func refusal(_ topic: String) -> KafkaError {
        KafkaError(.transport, "producing to \(topic): Kafka does not answer", isRetriable: true)
    }
}
