/// How long things took, in buckets of the caller's choice, taken in burst by burst.
///
/// Where durations come by the thousand, one lock a burst costs less than one each. Thread: any.
public struct DurationHistogram: Sendable {
    private let metric: HistogramMetric?

    init(_ metric: HistogramMetric?) { self.metric = metric }

    /// Takes one burst in.
    public func record(seconds: [Double]) { self.metric?.record(seconds) }
}

extension MetricsRegistry {
    /// A histogram with buckets of its own, where those for requests do not reach far enough or are too coarse.
    ///
    /// Who asks for the same name and labels again gets the one with the buckets that it was first made with.
    /// - Parameter bounds: the upper ends of the buckets in seconds, growing.
    public func durations(
        _ label: String, dimensions: [(String, String)] = [], bounds: [Double]
    ) -> DurationHistogram {
        DurationHistogram(self.makeTimer(label: label, dimensions: dimensions, bounds: bounds) as? HistogramMetric)
    }
}
