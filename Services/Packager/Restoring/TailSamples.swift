import Store

/// Turns observed ends of partitions into offsets below which Redis certainly has everything.
///
/// An order is in Redis before it is published; a registration is published first, and is there within seconds. So an
/// end from half a minute ago is certain now, if the view has been the same all the time.
struct TailSamples {
    /// The least age of an end that counts: longer than any request takes.
    static let lag: Duration = .seconds(30)
    /// The time between two samples of the ends; with `lag` it bounds the number of samples that are kept.
    static let interval: Duration = .seconds(5)

    private struct Sample {
        let at: ContinuousClock.Instant
        let ends: [String: Int64]
    }

    private var epochs: [String?] = []
    private var samples: [Sample] = []

    /// Returns true if it is time for the next sample.
    func isDue(at now: ContinuousClock.Instant) -> Bool {
        self.samples.last.map { now - $0.at >= Self.interval } ?? true
    }

    /// Adds a sample of the present ends of the partitions.
    ///
    /// - Parameter places: the places of a complete view.
    /// - Returns: offsets that have become certain, if there are new ones.
    mutating func add(
        _ ends: [String: Int64], in places: [MaterializedView.Place], at now: ContinuousClock.Instant
    ) -> [String: Int64]? {
        let epochs = places.map(\.epoch)
        if epochs != self.epochs {
            // Ends that were seen under another view say nothing about this one.
            self.epochs = epochs
            self.samples = []
        }
        self.samples.append(Sample(at: now, ends: ends))
        guard let certain = self.samples.lastIndex(where: { now - $0.at >= Self.lag }) else { return nil }
        let tails = self.samples[certain].ends
        self.samples.removeSubrange(...certain)
        return tails
    }
}
