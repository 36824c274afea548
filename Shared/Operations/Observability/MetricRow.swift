/// A metric of a service: the row of a table from which `# HELP` and `# TYPE` come, and which the documents repeat.
public struct MetricRow: Hashable, Sendable, CustomStringConvertible {
    /// The type, as Prometheus names it.
    public enum Kind: String, Sendable { case counter, gauge, histogram }

    let kind: Kind
    let name: String
    /// The names of its labels, in the order in which the code gives them.
    let labels: [String]
    /// The meaning, with the unit if the name does not end with it.
    let help: String

    public init(_ kind: Kind, _ name: String, by labels: [String] = [], _ help: String) {
        self.kind = kind
        self.name = name
        self.labels = labels
        self.help = help
    }

    /// The name with the labels, and the type.
    public var description: String {
        self.labels.isEmpty
            ? "\(self.name) \(self.kind)" : "\(self.name){\(self.labels.joined(separator: ","))} \(self.kind)"
    }

    /// The row of a document's table.
    public var markdown: String {
        let labels = self.labels.isEmpty ? "" : "{\(self.labels.joined(separator: ","))}"
        return "| `\(self.name)\(labels)` | \(self.kind) | \(self.help) |"
    }

    /// The help as it is written for Prometheus. Source: Prometheus text exposition format 0.0.4
    var helpText: String { self.help.replacing("\\", with: "\\\\").replacing("\n", with: "\\n") }
}

extension MetricRow {
    /// The metrics of all services, and those of several.
    public static let common = Self.ours + ProcessMetrics.table

    private static let ours = [
        MetricRow(
            .gauge, "waybill_build_info", by: ["version", "commit", "swift", "librdkafka", "openssl"],
            "always 1; the labels say what runs"),
        MetricRow(
            .gauge, "waybill_upstream_up", by: ["upstream"],
            "1 while redis, kafka or, for the pusher, apns answers"),
        MetricRow(
            .gauge, "waybill_reload_ok", by: ["file"],
            "0 while files that are read again at run time cannot be used, and their last good version is: "
                + "brands, token-secrets, tls, merchants"),
        MetricRow(.gauge, "waybill_brand_load_failed", by: ["brand"], "1 while a brand cannot be loaded"),
        MetricRow(
            .gauge, "waybill_certificate_expiry_timestamp_seconds", by: ["owner", "certificate"],
            "the last second of a certificate, since 1970: the signing, intermediate and push certificates of an "
                + "order type, the identity of a merchant, the tls certificate of the gateway"),
        MetricRow(.gauge, "waybill_redis_fault", by: ["fault"], "1 while Redis has that fault"),
        MetricRow(.gauge, "waybill_redis_memory_bytes", "used_memory of the fullest server"),
        MetricRow(.gauge, "waybill_redis_memory_limit_bytes", "maxmemory of the fullest server; 0: none"),
        MetricRow(
            .histogram, "waybill_redis_answer_seconds", by: ["operation"],
            "from sending a pipeline to its last answer, by the name of its first command"),
        MetricRow(
            .histogram, "waybill_kafka_answer_seconds", by: ["operation"],
            "what brokers take for a batch of messages (produce) and for a commit"),
        MetricRow(
            .gauge, "waybill_unworked_records", by: ["topic"],
            "records of this process's partitions that are not finished, deferred ones included; what to scale by"),
        MetricRow(
            .gauge, "waybill_committed_lag_records", by: ["topic"],
            "records after the committed positions, finished ones included: one record that waits holds it up"),
        MetricRow(
            .gauge, "waybill_oldest_unfinished_seconds", by: ["topic"],
            "age of the first record that was begun and is not finished; 0: all are finished"),
        MetricRow(
            .counter, "waybill_rebalances_total", by: ["kind"],
            "changes of this process's partitions: assigned, revoked (in order), lost (before they were finished)"),
        MetricRow(.counter, "waybill_commit_failures_total", "commits of positions that failed; each is repeated"),
        MetricRow(.gauge, "waybill_worker_quiet_seconds", "time since the last progress, while records are in hand"),
        MetricRow(.gauge, "waybill_records_in_hand", "records taken from Kafka that are in work or wait for it"),
        MetricRow(
            .counter, "waybill_batch_retries_total",
            "packager: orders that had to be retried; pusher: lookups for which Redis could not be queried"),
        MetricRow(
            .counter, "waybill_log_lines_dropped_total",
            "lines of the log that are missing in it, since its reader was too slow or gone"),
        MetricRow(
            .counter, "waybill_spans_dropped_total",
            "spans of traces that the collector did not take, or that came faster than it takes them"),
    ]
}
