import CRDKafka

/// Where the callbacks of one handle go. Handed to librdkafka as its opaque.
@safe
final class KafkaCallbacks: Sendable {
    /// From threads of librdkafka (log lines) and the polling thread (errors).
    let onEvent: (@Sendable (KafkaEvent) -> Void)?
    private let role: KafkaRole
    /// From the polling thread. The list belongs to librdkafka and ends with the call.
    let onRebalance:
        (
            @Sendable (OpaquePointer, rd_kafka_resp_err_t, UnsafeMutablePointer<rd_kafka_topic_partition_list_t>?) ->
                Void
        )?
    /// From the polling thread: the handle is of no more use.
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

    /// Passes one line of librdkafka's log on. Levels are those of syslog.
    ///
    /// Source: rdkafka.h, rd_kafka_conf_set_log_cb
    func log(level: Int32, facility: String, line: String) {
        guard let onEvent = self.onEvent else { return }
        // One properties file serves consumers and producers; that each ignores the other's is as meant.
        // An old broker (the mock broker too) cannot be told not to create topics, and it is said with every request.
        // A refusal comes as an error too, which says what it is about.
        let isExpected =
            facility == "AUTOCREATE" || facility == "CONFWARN" && line.contains("will be ignored by this")
            || line.contains("uthorization failed") || line.contains("uthentication failed")
        let severity: KafkaEvent.Severity =
            if isExpected { .debug } else if level <= 3 { .error } else if level <= 4 { .warning } else if level <= 6 {
                .info
            } else { .debug }
        onEvent(KafkaEvent(severity: severity, kind: .log, message: "\(facility): \(line)"))
    }

    /// Passes an error on that librdkafka survives by itself.
    func error(_ code: rd_kafka_resp_err_t, reason: String) {
        self.onEvent?(KafkaEvent(.error, KafkaError(code, "talking with Kafka", reason: reason), self.role))
    }
}
