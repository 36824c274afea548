import CRDKafka
import Synchronization

/// The polling thread of one producer: serves delivery reports.
///
/// Owner: the thread itself, from start until it has destroyed the handle.
final class ProducerThread: Sendable {
    private struct State {
        var isStopping = false
        var isEnded = false
        var closers: [CheckedContinuation<Void, Never>] = []
    }

    private let handle: KafkaHandle
    private let state = Mutex(State())
    private let failure = Failure()

    /// The state shared by the callbacks and this object.
    private final class Failure: Sendable { let isThere = Atomic<Bool>(false) }

    /// True if a fatal error has ended the handle: nothing can be produced with it any more.
    var hasFailed: Bool { self.failure.isThere.load(ordering: .relaxed) }

    /// See `KafkaHandle.cluster`; empty also once the handle is closed.
    var cluster: String {
        (try? unsafe self.handle.use { raw throws(KafkaError) in unsafe self.handle.cluster(raw) }) ?? ""
    }

    private let topics: [String]

    /// - Parameter topics: the topics to produce to; looked up immediately.
    init(
        properties: [(String, String)], topics: [String], onEvent: (@Sendable (KafkaEvent) -> Void)?
    ) throws(KafkaError) {
        self.topics = topics
        let failure = self.failure
        let callbacks = unsafe KafkaCallbacks(
            onEvent: onEvent, role: .producer(topics: topics),
            onFatal: { error in
                failure.isThere.store(true, ordering: .relaxed)
                onEvent?(KafkaEvent(.error, error, .producer(topics: topics)))
            })
        self.handle = try KafkaHandle(RD_KAFKA_PRODUCER, properties: properties, callbacks: callbacks)
        try KafkaThread.start("kafka-producer") { self.run() }
    }

    /// Hands a copy of the message to librdkafka.
    ///
    /// - Returns: nil if it is queued and a report will follow; else the error, and no report follows.
    func queue(_ message: KafkaMessage, _ slot: UnsafeMutablePointer<DeliveryBatch.Slot>) -> KafkaError? {
        do throws(KafkaError) {
            let isStopping = self.state.withLock { $0.isStopping }
            if isStopping { throw KafkaError(.closed, "producing to \(message.topic): the producer is closed") }
            try unsafe self.handle.use { raw throws(KafkaError) in
                let headers = try unsafe Self.headers(message)
                let code = unsafe Self.lend(message.key) { key, keySize in
                    unsafe Self.lend(message.value) { value, valueSize in
                        unsafe crdkafka_produce(
                            raw, message.topic, message.partition ?? RD_KAFKA_PARTITION_UA, key, keySize,
                            UnsafeMutableRawPointer(mutating: value), valueSize, headers,
                            message.timestampMilliseconds ?? 0, slot)
                    }
                }
                guard code != RD_KAFKA_RESP_ERR_NO_ERROR else { return }
                // librdkafka takes ownership of headers on success only (rdkafka.h, RD_KAFKA_V_HEADERS).
                if let headers = unsafe headers { unsafe rd_kafka_headers_destroy(headers) }
                throw KafkaError(code, "producing to \(message.topic)")
            }
            return nil
        } catch {
            return error
        }
    }

    func stop() { self.state.withLock { $0.isStopping = true } }

    func close() async {
        self.stop()
        await withCheckedContinuation { continuation in
            let isEnded = self.state.withLock { state in
                if !state.isEnded { state.closers.append(continuation) }
                return state.isEnded
            }
            if isEnded { continuation.resume() }
        }
    }

    private func run() {
        let handles = unsafe self.lookUp()
        while !self.state.withLock({ $0.isStopping }) {
            try? unsafe self.handle.use { raw throws(KafkaError) in _ = unsafe rd_kafka_poll(raw, 100) }
        }
        // Every message, even one queued while the producer closed, must have its report before the handle is
        // destroyed, or its caller would wait forever.
        unsafe self.handle.destroy { raw in
            let wait = Int32(clamping: KafkaProducer.flushWait.wholeMilliseconds)
            if unsafe rd_kafka_flush(raw, wait) != RD_KAFKA_RESP_ERR_NO_ERROR {
                _ = unsafe rd_kafka_purge(raw, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT)
                _ = unsafe rd_kafka_flush(raw, wait)
            }
            for index in unsafe handles.indices { unsafe rd_kafka_topic_destroy(handles[index]) }
        }
        let closers = self.state.withLock { state in
            state.isEnded = true
            defer { state.closers = [] }
            return state.closers
        }
        for closer in closers { closer.resume() }
    }

    /// Makes librdkafka look up the topics' partitions immediately.
    ///
    /// The first message to a topic that it does not know waits for its refresh of all topics, once a second.
    private func lookUp() -> [OpaquePointer] {
        let handles = try? unsafe self.handle.use { raw throws(KafkaError) in
            unsafe self.topics.compactMap { unsafe rd_kafka_topic_new(raw, $0, nil) }
        }
        return unsafe handles ?? []
    }

    private static func headers(_ message: KafkaMessage) throws(KafkaError) -> OpaquePointer? {
        if message.headers.isEmpty { return nil }
        guard let headers = unsafe rd_kafka_headers_new(message.headers.count) else {
            throw KafkaError(.outOfMemory, "making \(message.headers.count) headers")
        }
        for header in message.headers {
            let code = unsafe Self.lend(header.value) { value, size in
                unsafe rd_kafka_header_add(headers, header.name, header.name.utf8.count, value, size)
            }
            if code != RD_KAFKA_RESP_ERR_NO_ERROR {
                unsafe rd_kafka_headers_destroy(headers)
                throw KafkaError(code, "adding header \(header.name)")
            }
        }
        return unsafe headers
    }

    /// Lends bytes to C: nil as a null pointer, empty as a pointer to nothing; Kafka distinguishes these.
    private static func lend<Value>(_ bytes: [UInt8]?, _ body: (UnsafeRawPointer?, Int) -> Value) -> Value {
        guard let bytes else { return body(nil, 0) }
        if bytes.isEmpty { return unsafe withUnsafeBytes(of: UInt8(0)) { unsafe body($0.baseAddress, 0) } }
        return unsafe bytes.withUnsafeBytes { unsafe body($0.baseAddress, $0.count) }
    }
}
