import Model
import Store

/// The progress of all packagers together in a restore, and their rate.
struct RestoreProgress {
    /// The time over which the rate is measured.
    static let window: Duration = .seconds(15)

    private var history: [(at: ContinuousClock.Instant, done: Int64)] = []
    /// Offsets to read in all. In a compacted topic some hold no record.
    private(set) var total: Int64 = 0
    private(set) var done: Int64 = 0

    /// Brands that orders wait for.
    private(set) var awaitedBrands: [String] = []

    /// Records the present state of the jobs.
    mutating func update(_ jobs: [RestoreJobQueue.Job], at now: ContinuousClock.Instant) {
        self.awaitedBrands = Set(jobs.flatMap { $0.awaited?.types ?? [] }).map(\.rawValue).sorted()
        self.total = jobs.reduce(0) { $0 &+ ($1.to - $1.from) }
        self.done = jobs.reduce(0) { $0 &+ ($1.isDone ? $1.to - $1.from : $1.done) }
        self.history.append((now, self.done))
        while self.history.count > 2, now - self.history[0].at > Self.window { self.history.removeFirst() }
    }

    var remaining: Int64 { max(0, self.total - self.done) }

    var percent: Int64 { self.total <= 0 ? 100 : self.done * 100 / self.total }

    /// Offsets a second, compacted ones included.
    var rate: Double {
        guard let first = self.history.first, let last = self.history.last, last.at > first.at else { return 0 }
        return max(0, Double(last.done - first.done) / ((last.at - first.at) / .seconds(1)))
    }

    /// The time left at the present rate; nil if nothing progresses.
    var secondsLeft: Int64? {
        let rate = self.rate
        return rate > 0 ? Int64(min((Double(self.remaining) / rate).rounded(.up), 1e9)) : nil
    }
}
