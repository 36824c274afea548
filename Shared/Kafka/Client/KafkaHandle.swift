import CRDKafka
import Dispatch
import Glibc
import Synchronization

/// The sole owner of one `rd_kafka_t *` and of the object that its callbacks write to.
///
/// Owner: this object. Threads: any may call through `use`; `destroy` waits until none is inside.
/// Source: rdkafka.h and INTRODUCTION.md "Threads and callbacks": the API is thread-safe.
@safe
final class KafkaHandle: @unchecked Sendable {  // tidy: the pointer is constant and rd_kafka_t is thread-safe
    private struct Gate {
        var users = 0
        var isClosed = false
    }

    private let raw: OpaquePointer
    /// +1, released only after `rd_kafka_destroy` returned, when no callback can run.
    private let callbacks: Unmanaged<KafkaCallbacks>
    private let gate = Mutex(Gate())
    /// The identifier that was reported last, so that not every query makes its own string.
    private let known = Mutex("")
    private let empty = DispatchSemaphore(value: 0)

    /// - Throws: `.configuration` naming the property that librdkafka refuses.
    init(
        _ kind: rd_kafka_type_t, properties: [(String, String)], callbacks: KafkaCallbacks
    ) throws(KafkaError) {
        let conf = try unsafe Self.conf(properties)
        let retained = unsafe Unmanaged.passRetained(callbacks)
        unsafe Self.setCallbacks(conf, retained.toOpaque(), isConsumer: kind == RD_KAFKA_CONSUMER)
        if kind == RD_KAFKA_PRODUCER { unsafe rd_kafka_conf_set_dr_msg_cb(conf, DeliveryBatch.report) }

        var text = [CChar](repeating: 0, count: 512)
        // rd_kafka_new takes ownership of the conf on success only (rdkafka.h, rd_kafka_new).
        guard let raw = unsafe rd_kafka_new(kind, conf, &text, text.count) else {
            unsafe rd_kafka_conf_destroy(conf)
            unsafe retained.release()
            throw KafkaError(.configuration, "making a Kafka handle: \(Self.string(text))")
        }
        unsafe self.raw = raw
        unsafe self.callbacks = retained
    }

    deinit {
        // Only a handle whose owner never started a thread is still open here.
        if !self.gate.withLock({ $0.isClosed }) { self.destroy() }
    }

    /// Lends the handle. The pointer must not leave the closure.
    ///
    /// - Throws: `.closed` once `destroy` or `abandon` began; any error of `body`.
    func use<Value>(_ body: (OpaquePointer) throws(KafkaError) -> Value) throws(KafkaError) -> Value {
        let entered = self.gate.withLock { gate in
            if gate.isClosed { return false }
            gate.users += 1
            return true
        }
        guard entered else { throw KafkaError(.closed, "using a closed Kafka handle") }
        defer {
            let isLast = self.gate.withLock { gate in
                gate.users -= 1
                return gate.isClosed && gate.users == 0
            }
            if isLast { self.empty.signal() }
        }
        return try unsafe body(self.raw)
    }

    /// Returns the identifier of the cluster that brokers reported last; empty if they reported none. Does not wait.
    ///
    /// Source: rdkafka.h, rd_kafka_clusterid
    func cluster(_ raw: OpaquePointer) -> String {
        guard let text = unsafe rd_kafka_clusterid(raw, 0) else { return "" }
        defer { unsafe rd_kafka_mem_free(raw, text) }
        return self.known.withLock { known in
            let isSame = unsafe known.withCString { unsafe strcmp($0, text) == 0 }
            if !isSame { known = unsafe String(cString: text) }
            return known
        }
    }

    /// Waits for the calls in progress, then destroys the handle. Call it once, on a thread of the wrapper: it blocks.
    func destroy() { unsafe self.destroy { _ in } }

    /// Does the same after a last use of the handle.
    ///
    /// - Parameter last: uses the handle when no other call does any more.
    func destroy(after last: (OpaquePointer) -> Void) {
        self.closeGate()
        unsafe last(self.raw)
        unsafe rd_kafka_destroy_flags(self.raw, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE)
        unsafe self.callbacks.release()
    }

    /// Gives the handle up without destroying it, because librdkafka would wait forever.
    ///
    /// librdkafka < 2.1 may never finish closing when a partition was lost (CHANGELOG 2.1.0, #4187). The memory is not
    /// freed until the process ends.
    func abandon() {
        self.gate.withLock { $0.isClosed = true }
    }

    private func closeGate() {
        let isEmpty = self.gate.withLock { gate in
            gate.isClosed = true
            return gate.users == 0
        }
        if !isEmpty { self.empty.wait() }
    }

    /// Checks if librdkafka accepts the properties.
    static func check(_ properties: [(String, String)]) throws(KafkaError) {
        unsafe rd_kafka_conf_destroy(try Self.conf(properties))
    }

    /// - Returns: a conf that the caller must destroy.
    private static func conf(_ properties: [(String, String)]) throws(KafkaError) -> OpaquePointer {
        guard let conf = unsafe rd_kafka_conf_new() else {
            throw KafkaError(.outOfMemory, "making a configuration: refused")
        }
        do throws(KafkaError) {
            for (name, value) in properties { try unsafe Self.set(name, value, in: conf) }
        } catch {
            unsafe rd_kafka_conf_destroy(conf)
            throw error
        }
        return unsafe conf
    }

    private static func set(_ name: String, _ value: String, in conf: OpaquePointer) throws(KafkaError) {
        var text = [CChar](repeating: 0, count: 512)
        let result = unsafe rd_kafka_conf_set(conf, name, value, &text, text.count)
        guard result != RD_KAFKA_CONF_OK else { return }
        // librdkafka repeats the value in its text.
        let reason = KafkaConfiguration.isSecret(name) ? "refused" : Self.string(text)
        throw KafkaError(.configuration, "setting \(name): \(reason)", libraryCode: result.rawValue)
    }

    private static func setCallbacks(_ conf: OpaquePointer, _ opaque: UnsafeMutableRawPointer, isConsumer: Bool) {
        unsafe rd_kafka_conf_set_opaque(conf, opaque)
        unsafe rd_kafka_conf_set_log_cb(conf) { handle, level, facility, line in
            // Lines of an instance being created have no handle yet; rd_kafka_new reports the error.
            guard let handle = unsafe handle, let opaque = unsafe rd_kafka_opaque(handle) else { return }
            let facility = unsafe facility.map { unsafe String(cString: $0) } ?? ""
            let line = unsafe line.map { unsafe String(cString: $0) } ?? ""
            let callbacks = unsafe Unmanaged<KafkaCallbacks>.fromOpaque(opaque).takeUnretainedValue()
            callbacks.log(level: level, facility: facility, line: line)
        }
        unsafe rd_kafka_conf_set_error_cb(conf) { handle, code, reason, opaque in
            guard let handle = unsafe handle, let opaque = unsafe opaque else { return }
            let callbacks = unsafe Unmanaged<KafkaCallbacks>.fromOpaque(opaque).takeUnretainedValue()
            let code = rd_kafka_resp_err_t(rawValue: code)
            guard code == RD_KAFKA_RESP_ERR__FATAL else {
                callbacks.error(code, reason: unsafe reason.map { unsafe String(cString: $0) } ?? "")
                return
            }
            if let error = unsafe KafkaHandle.fatal(handle) { callbacks.onFatal?(error) }
        }
        guard isConsumer else { return }
        unsafe rd_kafka_conf_set_rebalance_cb(conf) { handle, code, partitions, opaque in
            guard let handle = unsafe handle, let opaque = unsafe opaque else { return }
            let callbacks = unsafe Unmanaged<KafkaCallbacks>.fromOpaque(opaque).takeUnretainedValue()
            unsafe callbacks.onRebalance?(handle, code, partitions)
        }
    }

    /// Returns the error that ended a handle, if one did. Source: rdkafka.h, rd_kafka_fatal_error
    static func fatal(_ raw: OpaquePointer) -> KafkaError? {
        var text = [CChar](repeating: 0, count: 512)
        let code = unsafe rd_kafka_fatal_error(raw, &text, text.count)
        guard code != RD_KAFKA_RESP_ERR_NO_ERROR else { return nil }
        return KafkaError(
            KafkaError.Code(code), "talking with Kafka: \(Self.string(text))", isFatal: true, libraryCode: code.rawValue
        )
    }

    /// Returns the text of a C string up to its zero byte.
    static func string(_ text: [CChar]) -> String {
        String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// Returns the version of librdkafka that this process runs with.
public func librdkafkaVersion() -> String { unsafe String(cString: rd_kafka_version_str()) }

/// The receivers of one handle's callbacks. Passed to librdkafka as its opaque.
@safe
final class KafkaCallbacks: Sendable {
    /// Called by threads of librdkafka (log lines) and by the polling thread (errors).
    let onEvent: (@Sendable (KafkaEvent) -> Void)?
    private let role: KafkaRole
    /// Called by the polling thread. The list belongs to librdkafka and is valid during the call only.
    let onRebalance:
        (
            @Sendable (OpaquePointer, rd_kafka_resp_err_t, UnsafeMutablePointer<rd_kafka_topic_partition_list_t>?) ->
                Void
        )?
    /// Called by the polling thread: the handle can no longer be used.
    let onFatal: (@Sendable (KafkaError) -> Void)?

    init(
        onEvent: (@Sendable (KafkaEvent) -> Void)?, role: KafkaRole = .other,
        onRebalance: (
            @Sendable (OpaquePointer, rd_kafka_resp_err_t, UnsafeMutablePointer<rd_kafka_topic_partition_list_t>?)
                -> Void
        )? = nil,
        onFatal: (@Sendable (KafkaError) -> Void)? = nil
    ) {
        self.onEvent = onEvent
        self.role = role
        unsafe self.onRebalance = onRebalance
        self.onFatal = onFatal
    }

    /// Forwards one line of librdkafka's log. Levels are those of syslog.
    ///
    /// Source: rdkafka.h, rd_kafka_conf_set_log_cb
    func log(level: Int32, facility: String, line: String) {
        guard let onEvent = self.onEvent else { return }
        // One properties file serves consumers and producers; each is expected to ignore the other's properties, and
        // readers without a group need the legacy property. An old broker (the mock broker too) cannot be asked not to
        // create topics, and librdkafka logs that with every request. A refusal is also reported as an error, which
        // says what it concerns.
        let isExpected =
            facility == "AUTOCREATE"
            || facility == "CONFWARN"
                && (line.contains("will be ignored by this") || line.contains("auto.commit.enable is deprecated"))
            || line.contains("uthorization failed") || line.contains("uthentication failed")
        let severity: KafkaEvent.Severity =
            if isExpected { .debug } else if level <= 3 { .error } else if level <= 4 { .warning } else if level <= 6 {
                .info
            } else { .debug }
        onEvent(KafkaEvent(severity: severity, kind: .log, message: "\(facility): \(line)"))
    }

    /// Forwards an error from which librdkafka recovers by itself.
    func error(_ code: rd_kafka_resp_err_t, reason: String) {
        self.onEvent?(KafkaEvent(.error, KafkaError(code, "talking with Kafka", reason: reason), self.role))
    }
}
