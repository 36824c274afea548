import Kafka
import Model
import Store

/// The records to read in a restore: both compacted topics, from the offsets up to which Redis certainly has
/// everything, to their ends.
enum RestorePlan {
    /// Returns the name of a partition in jobs.
    static func name(_ topic: String, _ partition: Int32) -> String { "\(topic)/\(partition)" }

    /// Returns the name of a topic or a partition in tails: offsets of one cluster say nothing about another one.
    static func tail(_ name: String, in cluster: String) -> String { "\(cluster)/\(name)" }

    /// Returns the partition that a name denotes.
    static func partition(_ name: String) -> (topic: String, partition: Int32)? {
        guard let slash = name.lastIndex(of: "/"), let partition = Int32(name[name.index(after: slash)...])
        else { return nil }
        return (String(name[..<slash]), partition)
    }

    /// Returns one job for each partition.
    ///
    /// - Parameters:
    ///   - bounds: the bounds of each topic's partitions.
    ///   - cluster: the cluster of the topics.
    ///   - tails: the tails of each shard. Records that one shard has and another lacks must be read; a tail outside
    ///     its partition belongs to a topic that was recreated.
    static func jobs(
        _ bounds: [String: [OffsetRange]], in cluster: String, tails: [[String: Int64]]
    ) -> [RestoreJobQueue.Job] {
        bounds.sorted { $0.key < $1.key }.flatMap { topic, partitions in
            partitions.map { bounds in
                let name = Self.name(topic, bounds.partition)
                let lowest = tails.map { $0[Self.tail(name, in: cluster)] ?? bounds.first }.min() ?? bounds.first
                let isWithin = (bounds.first...max(bounds.first, bounds.end)).contains(lowest)
                var job = RestoreJobQueue.Job(name: name, from: isWithin ? lowest : bounds.first, to: bounds.end)
                job.isDone = job.from >= job.to
                return job
            }
        }
    }

    /// Returns the offsets below which Redis has everything once all jobs are done.
    static func tails(_ jobs: [RestoreJobQueue.Job], in cluster: String) -> [String: Int64] {
        Dictionary(jobs.map { (Self.tail($0.name, in: cluster), $0.to) }, uniquingKeysWith: { first, _ in first })
    }
}

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
    /// - Parameter shards: the shards of a complete view.
    /// - Returns: offsets that have become certain, if there are new ones.
    mutating func add(
        _ ends: [String: Int64], in shards: [MaterializedView.Shard], at now: ContinuousClock.Instant
    ) -> [String: Int64]? {
        let epochs = shards.map(\.epoch)
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

/// The ends of partitions that were seen so far. One that ends earlier shows that its topic was made anew, or has lost
/// its end: Kafka may lack what Redis has.
struct SeenEnds {
    private var highest: [String: Int64] = [:]
    /// The partitions that end earlier, by the names of their tails.
    private(set) var behind: Set<String> = []

    /// Compares the present ends.
    ///
    /// - Parameter tails: those of each shard, read before the ends.
    /// - Returns: true if other partitions are behind than before.
    mutating func note(_ ends: [String: Int64], tails: [[String: Int64]]) -> Bool {
        let before = self.behind
        self.behind = []
        for (name, end) in ends {
            let highest = tails.reduce(max(self.highest[name] ?? 0, end)) { max($0, $1[name] ?? 0) }
            if end < highest { self.behind.insert(name) }
            self.highest[name] = highest
        }
        return self.behind != before
    }
}

/// The progress of all packagers together in a restore, and their rate.
struct RestoreProgress {
    /// The time over which the rate is measured.
    static let window: Duration = .seconds(15)

    private var history: [(at: ContinuousClock.Instant, done: Int64)] = []
    /// Offsets to read in all. In a compacted topic some hold no record.
    private(set) var total: Int64 = 0
    private(set) var done: Int64 = 0

    /// Records the present state of the jobs.
    mutating func update(_ jobs: [RestoreJobQueue.Job], at now: ContinuousClock.Instant) {
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
