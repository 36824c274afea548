/// Durations in buckets of the caller's choice, recorded in bursts.
///
/// With thousands of durations, one lock per burst costs less than one per duration. Thread: any.
public struct DurationHistogram: Sendable {
    private let metric: HistogramMetric?

    init(_ metric: HistogramMetric?) { self.metric = metric }

    /// Records one burst.
    public func record(seconds: [Double]) { self.metric?.record(seconds) }
}

extension MetricsRegistry {
    /// Returns a histogram with its own buckets, for durations whose range or resolution the buckets for requests do
    /// not cover.
    ///
    /// A second request for the same name and labels returns the first histogram, with the buckets it was made with.
    /// - Parameter bounds: the upper ends of the buckets in seconds, ascending.
    public func durations(
        _ label: String, dimensions: [(String, String)] = [], bounds: [Double]
    ) -> DurationHistogram {
        DurationHistogram(self.makeTimer(label: label, dimensions: dimensions, bounds: bounds) as? HistogramMetric)
    }
}
