import Synchronization

/// The largest record that the topic of orders takes, as far as it is known: the producer's limit, and below that what
/// brokers refused. A version of a larger one is never written, since it could not be published.
final class RecordLimit: Sendable {
    /// Bytes that Kafka adds to the value of a record at most: key, headers, the batch around it.
    private static let overhead = 1024

    private let producer: Int
    private let bytes: Atomic<Int>

    /// - Parameter producer: `message.max.bytes` of the producer.
    init(producer: Int) {
        self.producer = max(0, producer - Self.overhead)
        self.bytes = Atomic(self.producer)
    }

    /// The most bytes of a record's value.
    var value: Int { self.bytes.load(ordering: .relaxed) }

    /// A record was refused for its size.
    func refused(_ size: Int) {
        let limit = self.value
        if size - Self.overhead < limit { self.bytes.store(max(0, size - Self.overhead), ordering: .relaxed) }
    }

    /// A record was taken. A larger one than is allowed here comes from before, and the topic takes more by now.
    func taken(_ size: Int) {
        if size > self.value { self.bytes.store(self.producer, ordering: .relaxed) }
    }
}
