public import CoreMetrics

extension MetricsRegistry {
    /// A timer with buckets of its own, where those for requests do not reach far enough or are too coarse.
    ///
    /// Who asks for the same name and labels again gets the timer with the buckets that it was first made with.
    /// - Parameter bounds: the upper ends of the buckets in seconds, growing.
    public func timer(_ label: String, dimensions: [(String, String)] = [], bounds: [Double]) -> Timer {
        Timer(
            label: label, dimensions: dimensions,
            handler: self.makeTimer(label: label, dimensions: dimensions, bounds: bounds), factory: self)
    }
}
