import Adoption
import Operations

extension MetricRow {
    /// The metrics of the packager.
    static let packager = changes + restoring + pictures + documents + assets + wallet + adoption

    /// The metrics of changes, and of the worker that processes them.
    static let changes = [
        MetricRow(.counter, "waybill_changes_consumed_total", "records taken from topics of changes and finished"),
        MetricRow(.counter, "waybill_changes_applied_total", "changes that changed an order"),
        MetricRow(.counter, "waybill_changes_unchanged_total", "changes that said nothing new"),
        MetricRow(
            .counter, "waybill_changes_skipped_total", by: ["reason"],
            "changes that were seen before (redelivered, duplicate) or are out_of_sequence: if these only grow, "
                + "the numbers of a source began again, which then needs another name; or are removals of "
                + "another_version"),
        MetricRow(
            .counter, "waybill_changes_conflated_total",
            "changes that shared a signature with a later one of their order"),
        MetricRow(.gauge, "waybill_unknown_orders_waiting", "orders that do not exist yet and whose updates wait"),
        MetricRow(
            .counter, "waybill_early_changes_applied_total",
            "dead letters that were applied when their order was created"),
        MetricRow(.counter, "waybill_dead_letters_total", "records that became dead letters"),
        MetricRow(
            .gauge, "waybill_dead_letters_open",
            "changes among the dead letters that were neither replayed nor closed, the same for all packagers"),
        MetricRow(.gauge, "waybill_dead_letters_oldest_seconds", "age of the oldest of them, 0 without one"),
        MetricRow(.counter, "waybill_packages_built_total", "packages that were built and signed"),
        MetricRow(
            .counter, "waybill_packages_left_total",
            "versions stored without a package, since no device follows their order"),
        MetricRow(.counter, "waybill_packages_requested_total", "those that were packaged because somebody asked"),
        MetricRow(.histogram, "waybill_change_age_seconds", "from a change's arrival in Kafka to its package in Redis"),
        MetricRow(
            .histogram, "waybill_change_step_seconds", by: ["step"],
            "time of a step: read, write and publish of a batch, fold and sign of an order"),
        MetricRow(
            .counter, "waybill_files_omitted_total",
            "files that an order names and its brand does not have; the package went out without them"),
        MetricRow(
            .counter, "waybill_guideline_packages_total", by: ["brand", "kept"],
            "packaged versions, by whether they keep all of Apple's guidelines (Wallet Orders §3.21)"),
        MetricRow(
            .counter, "waybill_guideline_findings_total", by: ["brand", "guideline"],
            "packaged versions that do not keep a guideline"),
        MetricRow(
            .counter, "waybill_write_conflicts_total",
            "writes that found a version other than the one that was read"),
        MetricRow(
            .counter, "waybill_versions_overtaken_total",
            "versions that were published when a later one was already stored: their partition had moved to "
                + "another worker"),
        MetricRow(.histogram, "waybill_batch_records", "records of a batch"),
        MetricRow(.histogram, "waybill_batch_keys", "orders of a batch"),
        MetricRow(
            .gauge, "waybill_suspect_keys",
            "keys that are worked on alone, since they were in work when a worker ended"),
        MetricRow(.gauge, "waybill_parked_keys", "orders that wait to be retried"),
        MetricRow(.gauge, "waybill_parked_oldest_seconds", "how long the first of them has waited"),
        MetricRow(.gauge, "waybill_bytes_in_hand", "bytes of the records in hand"),
        MetricRow(.gauge, "waybill_documents_in_hand_bytes", "bytes of stored documents in memory"),
        MetricRow(.gauge, "waybill_waiting_records", by: ["brand"], "deferred records"),
        MetricRow(
            .counter, "waybill_waiting_records_lost_total",
            "deferred records that retention deleted before they were read again"),
        MetricRow(
            .gauge, "waybill_topic_partitions_added", by: ["topic"],
            "partitions that a compacted topic has gained since all of its keys were in the right ones"),
    ]

    /// The metrics of a restore.
    static let restoring = [
        MetricRow(.gauge, "waybill_view_complete", "1 while the view is complete: alert on 0 for minutes"),
        MetricRow(.counter, "waybill_restores_total", "restores that began"),
        MetricRow(.gauge, "waybill_restore_remaining", "records that are still to be read"),
        MetricRow(.counter, "waybill_restore_records_total", "records read"),
        MetricRow(.counter, "waybill_restore_orders_total", "orders restored"),
        MetricRow(.counter, "waybill_restore_registrations_total", "registrations restored"),
        MetricRow(.counter, "waybill_restore_refused_total", "records that cannot be read: see the log"),
        MetricRow(
            .gauge, "waybill_topic_partitions_behind", by: ["topic"],
            "partitions of a compacted topic that end before an offset that was seen, since the packager started: the "
                + "topic was made anew, or has lost its end"),
    ]

    /// The metrics of pictures by URL.
    static let pictures = [
        MetricRow(.counter, "waybill_pictures_fetched_total", "pictures that were fetched, new or unchanged"),
        MetricRow(
            .histogram, "waybill_picture_fetch_seconds",
            "time of a fetch, and of making its picture right, failed ones included"),
        MetricRow(.counter, "waybill_picture_failures_total", by: ["reason"], "fetches that failed"),
        MetricRow(.gauge, "waybill_pictures_waiting", "awaited pictures, of all packagers"),
        MetricRow(
            .counter, "waybill_pictures_omitted_total",
            "pictures that were left out of packages for the time being"),
        MetricRow(
            .counter, "waybill_pictures_unnoted_total",
            "pictures that could not be awaited, because too many already are"),
    ]

    /// The metrics of the orders' own documents by URL.
    static let documents = [
        MetricRow(.counter, "waybill_own_documents_fetched_total", "receipts and labels that were fetched"),
        MetricRow(.histogram, "waybill_own_document_fetch_seconds", "time of a fetch, failed ones included"),
        MetricRow(
            .counter, "waybill_own_document_failures_total", by: ["reason"],
            "fetches that failed; no_room: the order's or the brand's documents would have too many bytes"),
        MetricRow(.gauge, "waybill_own_documents_waiting", "awaited documents, of all packagers"),
        MetricRow(
            .counter, "waybill_own_documents_omitted_total",
            "documents that were left out of packages for the time being"),
        MetricRow(
            .counter, "waybill_own_documents_unnoted_total",
            "documents that could not be awaited, because too many already are"),
        MetricRow(
            .gauge, "waybill_own_document_bytes", by: ["brand"],
            "their bytes in Redis; set right by each scan of the assets"),
        MetricRow(
            .gauge, "waybill_own_document_limit_bytes", by: ["brand"],
            "the bytes that they may have, documents.brandBytes"),
    ]

    /// The metrics of what is in Wallet.
    static let wallet = [
        MetricRow(
            .gauge, "waybill_wallet_orders", by: ["brand"],
            "orders that have devices; the same in each packager, set right by each scan of the assets"),
        MetricRow(.gauge, "waybill_wallet_devices", by: ["brand"], "devices that have orders, likewise"),
    ]

    /// The metrics of the deletion of unused pictures.
    static let assets = [
        MetricRow(.gauge, "waybill_assets", "pictures and texts in Redis, as of the last scan"),
        MetricRow(.gauge, "waybill_assets_bytes", "their bytes (needs +strlen)"),
        MetricRow(.gauge, "waybill_assets_unused", "those that no order names"),
        MetricRow(.counter, "waybill_assets_swept_total", "those that were deleted"),
        MetricRow(.counter, "waybill_assets_swept_bytes_total", "their bytes"),
        MetricRow(.counter, "waybill_packages_dropped_total", "packages of old versions that were dropped"),
        MetricRow(
            .gauge, "waybill_cold_orders",
            "orders of which Redis has the place of their record alone, as of the last scan"),
        MetricRow(
            .gauge, "waybill_orders_not_cooled", by: ["reason"],
            "orders that were old enough in the last scan and stayed warm: the place of their record is not known "
                + "(unplaced), it has not what Redis has (differs: alert, Kafka lost records), or Kafka did not "
                + "answer (unread)"),
        MetricRow(
            .counter, "waybill_orders_published_again_total",
            "those that were published again, so that they cool in the next scan"),
        MetricRow(.counter, "waybill_cold_orders_read_total", "cold orders that were read from their records"),
    ]
}
