import Operations

extension MetricRow {
    /// The metrics of the role `ingest`: its own, and those of the worker.
    static let ingest =
        changes + [
            MetricRow(
                .counter, "waybill_ingest_records_total", by: ["source", "outcome"],
                "records that were mapped, ignored or refused"),
            MetricRow(
                .counter, "waybill_ingest_ignored_total", by: ["source", "kind"],
                "ignored records: `unmapped` by the program, `early`, `deletion`, and of Debezium "
                    + "what is about no row: `message`, `truncation`, `transaction`, `heartbeat`, `schema-change`, "
                    + "`notification`"),
            MetricRow(.counter, "waybill_ingest_changes_total", by: ["source", "type"], "changes that were published"),
            MetricRow(
                .counter, "waybill_ingest_unknown_values_total", by: ["source", "table"],
                "words that the tables of the library, or of the program, do not have"),
            MetricRow(
                .counter, "waybill_ingest_mended_total", by: ["source", "kind"],
                "faults of JSON that were mended: `lone-surrogate`, `repeated-member`"),
            MetricRow(
                .counter, "waybill_ingest_omitted_total", by: ["source", "member"],
                "members of orders that were not valid and that a change went without"),
            MetricRow(
                .gauge, "waybill_ingest_unknown_aliases_waiting",
                "keys whose records wait for the order of a parcel"),
            MetricRow(
                .histogram, "waybill_ingest_map_seconds", by: ["source"], "time to decode, map and check a record"),
            MetricRow(
                .histogram, "waybill_ingest_age_seconds", by: ["source"],
                "age of a record's timestamp when it is mapped"),
        ]
}
