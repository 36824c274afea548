import CRDKafka

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
