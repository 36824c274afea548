public import Operations

extension MetricRow {
    /// The metrics of connections and TLS.
    public static let connections = [
        MetricRow(.gauge, "waybill_connections", "open connections"),
        MetricRow(.counter, "waybill_connections_refused_total", by: ["reason"], "connections above a limit"),
        MetricRow(
            .counter, "waybill_connections_gave_way_total",
            "idle connections that were closed to make room for others"),
        MetricRow(
            .gauge, "waybill_request_bytes",
            "memory of requests that have arrived in part or wait, and of large ones until they are answered"),
        MetricRow(
            .counter, "waybill_requests_gave_way_total", by: ["limit"],
            "requests that arrived or waited too long while their address, their network or all had their memory"),
        MetricRow(.counter, "waybill_tls_handshakes_failed_total", "TLS handshakes that failed"),
        MetricRow(
            .counter, "waybill_tls_certificate_reloads_total", by: ["outcome"],
            "attempts to read certificate and key again"),
    ]
}
