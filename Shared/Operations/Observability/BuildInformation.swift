import CoreMetrics
import Model

/// The version and the commit of this program, as a metric.
enum BuildInformation {
    static func gauge(_ factory: any MetricsFactory) {
        Gauge(
            label: "waybill_build_info",
            dimensions: [("version", ProgramVersion.number), ("commit", ProgramVersion.commit)], factory: factory
        ).record(1)
    }
}
