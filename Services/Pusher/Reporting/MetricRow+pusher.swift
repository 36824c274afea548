import Adoption
import Operations

extension MetricRow {
    /// The metrics of the pusher.
    static let pusher = credentials + notifications + adoption

    /// The metrics of a credential, by its order type.
    static let credentials = [
        MetricRow(
            .counter, "waybill_pushes_total", by: ["credential", "host", "outcome"],
            "notifications delivered, retried, coalesced (merged into another one), limited (waited for their "
                + "turn), unknown-token (the registration stays), dropped"),
        MetricRow(
            .counter, "waybill_push_tokens_retired_total", by: ["credential", "host"],
            "registrations that ended because APNs reported that their token is gone"),
        MetricRow(
            .counter, "waybill_push_dead_letters_total", by: ["credential", "host", "code"],
            "devices that were not notified"),
        MetricRow(
            .gauge, "waybill_push_pending", by: ["credential", "host"],
            "orders, or single devices of them, that wait until there is room and sending is possible"),
        MetricRow(
            .gauge, "waybill_push_credential_state", by: ["credential", "host"],
            "0 healthy, 1 ill (APNs is unavailable), 2 stopped (refused: fix the certificate or key)"),
        MetricRow(
            .gauge, "waybill_push_breaker_open", by: ["credential", "host"],
            "1: too many tokens are unknown to APNs, so none of them is removed (wrong environment?)"),
        MetricRow(
            .counter, "waybill_apns_requests_total", by: ["credential", "host", "status", "reason"],
            "attempts by APNs' answer; status none: no answer, with the cause; reason not-apns: the answer of "
                + "another server"),
        MetricRow(
            .gauge, "waybill_apns_connections", by: ["credential", "host", "state"],
            "connections: connecting, open, draining, backing-off"),
        MetricRow(
            .gauge, "waybill_apns_streams_in_use", by: ["credential", "host"],
            "streams of all open connections together"),
        MetricRow(
            .gauge, "waybill_apns_stream_limit", by: ["credential", "host"],
            "the most streams that all open connections may have together"),
        MetricRow(.gauge, "waybill_apns_queued", by: ["credential", "host"], "requests that wait for a stream"),
        MetricRow(
            .gauge, "waybill_apns_queue_oldest_seconds", by: ["credential", "host"],
            "how long the first of them has waited"),
        MetricRow(.counter, "waybill_apns_connected_total", by: ["credential", "host"], "connections that were made"),
        MetricRow(
            .counter, "waybill_apns_disconnected_total", by: ["credential", "host", "reason"],
            "connections that failed or were lost"),
        MetricRow(
            .counter, "waybill_apns_connections_replaced_total", by: ["credential", "host", "reason"],
            "connections that another one followed: goaway, silence, timeouts, …"),
        MetricRow(
            .counter, "waybill_apns_goaways_total", by: ["credential", "host", "reason", "code"],
            "GOAWAY frames"),
        MetricRow(
            .counter, "waybill_apns_settings_changes_total", by: ["credential", "host"],
            "changes of the stream limit"),
        MetricRow(
            .counter, "waybill_apns_refused_streams_total", by: ["credential", "host"],
            "requests that APNs left unprocessed and that were sent again"),
    ]

    /// The metrics of all notifications together.
    static let notifications = [
        MetricRow(
            .histogram, "waybill_push_lookup_age_seconds",
            "from a change's publication until its devices are known"),
        MetricRow(
            .histogram, "waybill_push_age_seconds", by: ["host"],
            "from a change's publication to APNs' answer, 1 ms to 1 h"),
        MetricRow(
            .histogram, "waybill_apns_answer_seconds", by: ["host"],
            "from a request's first stream to its outcome"),
        MetricRow(.histogram, "waybill_apns_ping_seconds", by: ["host"], "round trip of a PING"),
        MetricRow(.counter, "waybill_records_consumed_total", "records taken from Kafka"),
        MetricRow(.counter, "waybill_records_unreadable_total", "records that could not be read"),
        MetricRow(
            .gauge, "waybill_push_targets", by: ["state"],
            "devices that wait, are ready, in flight, or settling"),
        MetricRow(.gauge, "waybill_push_records_parked", "parked records"),
        MetricRow(.counter, "waybill_push_records_stale_total", "records that were too old for a notification"),
        MetricRow(
            .counter, "waybill_push_records_duplicate_total",
            "records whose devices were notified before their group lost its offsets"),
        MetricRow(
            .counter, "waybill_push_registrations_limited_total",
            "times that a device which registered soon after a change had to wait, since its order had used up "
                + "the share of registrations"),
        MetricRow(
            .counter, "waybill_push_devices_skipped_total",
            "devices that were not notified of a change, since their order has more devices than are notified of "
                + "one change"),
        MetricRow(
            .gauge, "waybill_suspect_keys",
            "keys that are looked up alone, since they were in work when a pusher ended"),
        MetricRow(.counter, "waybill_push_pending_written_total", "entries that were moved to the pending topic"),
        MetricRow(.counter, "waybill_push_pending_completed_total", "entries that ended there"),
    ]
}
