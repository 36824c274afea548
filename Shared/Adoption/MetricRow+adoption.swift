public import Operations

extension MetricRow {
    /// The metrics of all services that count.
    public static let adoption = [
        MetricRow(
            .counter, "waybill_adoption_total", by: ["brand", "step"],
            "order details handed out (details), orders whose package was fetched for the first time (fetched), that "
                + "got their first device (added) or lost their last one (removed)"),
        MetricRow(
            .histogram, "waybill_fetched_update_age_seconds", by: ["brand"],
            "from a version's second to its fetch by a device that had an older one, 1 s to 1 d"),
    ]
}
