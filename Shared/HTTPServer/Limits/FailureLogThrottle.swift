public import NIOCore

/// Decides which of many failures get a log line.
///
/// While Redis or Kafka is away every request fails, and a line for each would bury other events. The first failure of
/// a kind is written immediately; those that follow are counted and written as one line when the interval ends.
public struct FailureLogThrottle: Sendable {
    /// The action for a failure.
    public enum Step: Hashable, Sendable {
        /// Write it.
        case write
        /// Nothing yet; request the summary at this time.
        case summarise(at: NIODeadline)
        /// Nothing; it will be in the summary.
        case count
    }

    /// The failures of an interval that were not logged.
    public struct Summary: Hashable, Sendable {
        public let count: Int
        /// The reason of the last failure.
        public let reason: String
    }

    private struct Interval {
        var end: NIODeadline
        var count = 0
        var reason = ""
    }

    private let length: TimeAmount
    private var intervals: [String: Interval] = [:]

    /// - Parameter length: the interval in which one line of a kind is written.
    public init(length: TimeAmount = .seconds(10)) { self.length = length }

    /// - Parameter kind: from a closed set, such as an endpoint's label.
    public mutating func failed(_ kind: String, _ reason: String, at now: NIODeadline) -> Step {
        guard var interval = self.intervals[kind], interval.count > 0 || interval.end > now else {
            self.intervals[kind] = Interval(end: now + self.length)
            return .write
        }
        interval.count += 1
        interval.reason = reason
        self.intervals[kind] = interval
        return interval.count == 1 ? .summarise(at: interval.end) : .count
    }

    /// Returns the failures since the last line. A new interval begins, since the summary is a line as well.
    ///
    /// - Returns: nil if there are none.
    public mutating func summary(of kind: String, at now: NIODeadline) -> Summary? {
        guard let interval = self.intervals[kind], interval.count > 0 else { return nil }
        self.intervals[kind] = Interval(end: now + self.length)
        return Summary(count: interval.count, reason: interval.reason)
    }
}
