import Adoption
import HTTPServer
import Operations

extension MetricRow {
    /// The metrics of the checkout role.
    static let checkout = routes + connections + adoption

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
            .counter, "waybill_webhook_signatures_total", by: ["source", "outcome"],
            "right signatures of webhooks: first, repeated within a day, unchecked without Redis"),
        MetricRow(
            .counter, "waybill_webhook_events_total", by: ["source", "outcome"],
            "events of a webhook: taken, or the reason of the refusal"),
        MetricRow(
            .gauge, "waybill_merchant_load_failed", by: ["merchant"],
            "1 while a merchant's directory cannot be loaded, or not in full: the last good state is in use if there "
                + "is one, and an origin or key that another merchant claims, too, is not served"),
    ]
}
