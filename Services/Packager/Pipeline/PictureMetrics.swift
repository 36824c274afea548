import CoreMetrics
import Operations

/// The metrics of pictures from URLs.
struct PictureMetrics: Sendable {
    /// Pictures that were fetched, anew or unchanged.
    let fetched: Counter
    /// Pictures that were left out of packages for the time being.
    let omitted: Counter
    /// Pictures that could not be waited for because too many already are.
    let unnoted: Counter
    /// Pictures that are waited for, by all workers.
    let waiting: Gauge
    /// The duration of a fetch, including failed ones.
    let time: Timer
    private let failures: [PictureFailure: Counter]

    init(factory: any MetricsFactory) {
        self.fetched = Counter(label: "waybill_pictures_fetched_total", factory: factory)
        self.omitted = Counter(label: "waybill_pictures_omitted_total", factory: factory)
        self.unnoted = Counter(label: "waybill_pictures_unnoted_total", factory: factory)
        self.waiting = Gauge(label: "waybill_pictures_waiting", factory: factory)
        self.time = Timer(label: "waybill_picture_fetch_seconds", factory: factory)
        self.failures = Dictionary(label: "waybill_picture_failures_total", by: "reason", factory: factory)
    }

    func failed(_ reason: PictureFailure) { self.failures[reason]?.increment() }
}
