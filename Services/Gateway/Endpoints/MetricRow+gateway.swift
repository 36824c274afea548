import Adoption
import HTTPServer
import Operations

extension MetricRow {
    /// The metrics of the role for Wallet.
    static let gateway = endpoints + connections + adoption

    /// The metrics of the endpoints for Wallet.
    static let endpoints = [
        MetricRow(
            .histogram, "waybill_request_seconds", by: ["endpoint"],
            "from a request's last byte to the answer's first"),
        MetricRow(.counter, "waybill_responses_total", by: ["endpoint", "status"], "answers"),
        MetricRow(.counter, "waybill_fetches_held_total", "requests that waited for a package on its way"),
        MetricRow(
            .counter, "waybill_fetches_unpackaged_total",
            "those of them for a version without a package, which a packager was asked for"),
        MetricRow(
            .counter, "waybill_registrations_refused_total", by: ["reason"],
            "registrations refused because the order has as many devices as it may have, or for their rate"),
        MetricRow(.counter, "waybill_device_log_messages_total", "messages that devices sent"),
        MetricRow(.counter, "waybill_device_log_messages_dropped_total", "those that were too many to be looked at"),
        MetricRow(
            .counter, "waybill_device_complaints_total", by: ["brand", "class"],
            "the others by what they complain of: signature, format, picture, localization, other; brand unknown: they "
                + "name no configured one"),
    ]
}
