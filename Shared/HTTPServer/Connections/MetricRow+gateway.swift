import Operations

extension MetricRow {
    /// The metrics of the role for Wallet.
    static let gateway = endpoints + connections
    /// The metrics of the checkout role.
    static let checkout = routes + connections

    /// The metrics of the endpoints for Wallet.
    static let endpoints = [
        MetricRow(
            .histogram, "waybill_request_seconds", by: ["endpoint"],
            "from a request's last byte to the answer's first"),
        MetricRow(.counter, "waybill_responses_total", by: ["endpoint", "status"], "answers"),
        MetricRow(.counter, "waybill_fetches_held_total", "requests that waited for a package on its way"),
        MetricRow(
            .counter, "waybill_registrations_refused_total", by: ["reason"],
            "registrations refused because the order has as many devices as it may have, or for their rate"),
        MetricRow(.counter, "waybill_device_log_messages_total", "messages that devices sent"),
        MetricRow(.counter, "waybill_device_log_messages_dropped_total", "those that were too many to be logged"),
    ]

    /// The metrics of connections and TLS.
    static let connections = [
        MetricRow(.gauge, "waybill_connections", "open connections"),
        MetricRow(.counter, "waybill_connections_refused_total", by: ["reason"], "connections above a limit"),
        MetricRow(
            .counter, "waybill_connections_gave_way_total",
            "idle connections that were closed to make room for others"),
        MetricRow(.counter, "waybill_tls_handshakes_failed_total", "TLS handshakes that failed"),
        MetricRow(
            .counter, "waybill_tls_certificate_reloads_total", by: ["outcome"],
            "attempts to read certificate and key again"),
    ]

    /// The metrics of the checkout role's routes and merchants.
    static let routes = [
        MetricRow(
            .histogram, "waybill_checkout_request_seconds", by: ["route"],
            "from a request's last byte to the answer"),
        MetricRow(
            .counter, "waybill_checkout_requests_total", by: ["route", "merchant", "outcome"],
            "requests: done, refused, failed"),
        MetricRow(
            .counter, "waybill_checkout_changes_total", by: ["outcome"],
            "changes that it published, or failed to publish"),
        MetricRow(
            .gauge, "waybill_merchant_load_failed", by: ["merchant"],
            "1 while a merchant's directory cannot be loaded, with its last good state in use if there is one"),
    ]
}
