/// A script of faults with their times.
public struct APNSSimulatorScenario: Hashable, Sendable {
    /// The time of a step.
    public enum Time: Hashable, Sendable {
        /// This long after the start.
        case at(milliseconds: Int)
        /// After this many requests since the start.
        case afterRequests(Int)
    }

    /// One step.
    public struct Step: Hashable, Sendable {
        public var time: Time
        public var fault: APNSSimulatorFault

        public init(_ time: Time, _ fault: APNSSimulatorFault) {
            self.time = time
            self.fault = fault
        }
    }

    /// The seed of random numbers; nil continues the present sequence.
    public var seed: UInt64?
    /// In any order.
    public var steps: [Step]

    public init(seed: UInt64? = nil, steps: [Step]) {
        self.seed = seed
        self.steps = steps
    }
}

/// The progress of a running scenario. Steps of the same time come in the order in which they were written.
struct APNSSimulatorScript {
    /// The identifier of the run.
    let number: UInt64
    private let start: Int64
    private let firstRequest: UInt64
    /// The steps still to come, with the next one last.
    private var timed: [(milliseconds: Int64, step: APNSSimulatorScenario.Step)] = []
    private var counted: [(requests: UInt64, step: APNSSimulatorScenario.Step)] = []
    private(set) var done = 0

    /// - Parameters:
    ///   - now: the time on a monotonic clock.
    ///   - requests: the number of requests before the start.
    init(_ scenario: APNSSimulatorScenario, nowMilliseconds now: Int64, requests: UInt64) {
        var random = SystemRandomNumberGenerator()
        self.number = random.next()
        self.start = now
        self.firstRequest = requests
        for step in scenario.steps.reversed() {
            switch step.time {
            case .at(let milliseconds): self.timed.append((now + Int64(max(0, milliseconds)), step))
            case .afterRequests(let count): self.counted.append((requests + UInt64(max(0, count)), step))
            }
        }
        // Swift's sort is stable.
        self.timed.sort { $0.milliseconds > $1.milliseconds }
        self.counted.sort { $0.requests > $1.requests }
    }

    /// The time when the next step by time is due.
    var nextMilliseconds: Int64? { self.timed.last?.milliseconds }
    /// The total number of requests at which the next step by count is due.
    var nextRequests: UInt64? { self.counted.last?.requests }
    var remaining: Int { self.timed.count + self.counted.count }

    /// Removes and returns the steps that are due.
    mutating func take(nowMilliseconds now: Int64, requests: UInt64) -> [APNSSimulatorScenario.Step] {
        var due: [APNSSimulatorScenario.Step] = []
        while let next = self.timed.last, next.milliseconds <= now {
            due.append(next.step)
            self.timed.removeLast()
        }
        while let next = self.counted.last, next.requests <= requests {
            due.append(next.step)
            self.counted.removeLast()
        }
        self.done += due.count
        return due
    }

    /// The answer of `GET /scenario`.
    func json(nowMilliseconds now: Int64, requests: UInt64) -> String {
        "{\"running\":\(self.remaining > 0),\"done\":\(self.done),\"remaining\":\(self.remaining)"
            + ",\"milliseconds\":\(now - self.start),\"requests\":\(requests - self.firstRequest)}"
    }
}
