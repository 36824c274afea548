import Kafka
import Model
import Synchronization

/// Publishes a plan as a real upstream system would: an unacknowledged change is sent again before any that follow it.
final class ChaosPublisher: Sendable {
    private struct State {
        var sent = 0
        var broken: [String: BrokenRecord] = [:]
        var placed: [Int] = []
        var kafka: KafkaConfiguration
        /// True while nothing may be published.
        var isPaused = false
        /// True while no record is in flight to Kafka and none will be sent.
        var isAtRest = false
        /// Orders of which no more changes are published.
        var stopped: Set<Int> = []
        /// Orders with changes that are not acknowledged yet.
        var inFlight: Set<Int> = []
        /// Others that write to Kafka, see `whileNotPaused`.
        var others = 0
    }

    private let plan: ChaosPlan
    private let pace: ReplayPace
    private let tally: ChaosTally
    private let state: Mutex<State>

    init(plan: ChaosPlan, rate: Int, kafka: KafkaConfiguration, tally: ChaosTally) {
        self.plan = plan
        self.pace = ReplayPace(rate: rate)
        self.tally = tally
        self.state = Mutex(State(kafka: kafka))
    }

    /// The number of acknowledged steps.
    var sent: Int { self.state.withLock(\.sent) }
    /// The broken changes by position, in the form that dead letters use.
    var broken: [String: BrokenRecord] { self.state.withLock(\.broken) }
    /// An order that was published some time ago; nil before the first.
    var someOrder: Int? { self.state.withLock { state in state.placed.first { !state.stopped.contains($0) } } }

    /// Returns some of the orders that were published, each once.
    func someOrders(_ count: Int) -> [Int] {
        self.state.withLock { state in
            Array(Set((0..<count).compactMap { _ in state.placed.randomElement() }))
        }
    }

    /// Ends the changes of orders; returns once those that were sent are acknowledged.
    func stop(_ orders: [Int]) async throws {
        self.state.withLock { $0.stopped.formUnion(orders) }
        while !self.state.withLock({ $0.inFlight.isDisjoint(with: orders) }) {
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    /// Runs `body`, which writes to the cluster in use, while nothing is moved to another one.
    func whileNotPaused<Value>(_ body: () async throws -> Value) async throws -> Value {
        while !self.state.withLock({ state in
            if !state.isPaused { state.others += 1 }
            return !state.isPaused
        }) {
            try await Task.sleep(for: .milliseconds(20))
        }
        defer { self.state.withLock { $0.others -= 1 } }
        return try await body()
    }

    /// - Parameter placed: called with each order when its first change is acknowledged.
    /// - Throws: `KafkaError` if Kafka refuses permanently; `CancellationError`.
    func run(placed: (Int) async -> Void) async throws {
        defer { self.state.withLock { $0.isAtRest = true } }
        var producer = try KafkaProducer(self.kafka)
        let begin = ContinuousClock.now
        let steps = self.plan.steps
        var sent = 0
        while sent < steps.count {
            if self.isPaused {
                await producer.close()
                try await self.rest()
                producer = try KafkaProducer(self.kafka)
            }
            let due = self.pace.due(sent: sent, of: steps.count, after: .now - begin)
            guard due > 0 else {
                try await Task.sleep(until: begin + self.pace.moment(of: sent))
                continue
            }
            let batch = Self.distinct(steps[sent..<sent + due])
            var open = self.begin(batch)
            let published = open
            while !open.isEmpty {
                let results = await producer.produce(open.map(\.message))
                var failed: [ChaosPlan.Step] = []
                var isFatal = false
                for (step, result) in zip(open, results) {
                    switch result {
                    case .success(let position): self.note(step, position)
                    case .failure(let error):
                        failed.append(step)
                        isFatal = isFatal || error.isFatal
                        self.tally.count("published_again.\(error.code.rawValue)")
                        if [.configuration, .messageTooLarge, .authorization].contains(error.code) { throw error }
                    }
                }
                open = failed
                guard !open.isEmpty else { break }
                try await Task.sleep(for: .milliseconds(200))
                if isFatal {
                    await producer.close()
                    producer = try KafkaProducer(self.kafka)
                }
            }
            sent += batch.count
            for step in published where step.isFirst { await placed(step.story) }
            self.state.withLock { state in
                state.sent = sent
                state.inFlight = []
            }
        }
        await producer.close()
    }

    /// Returns the steps of orders whose changes have not ended.
    private func begin(_ batch: ArraySlice<ChaosPlan.Step>) -> [ChaosPlan.Step] {
        self.state.withLock { state in
            let open = batch.filter { !state.stopped.contains($0.story) }
            state.inFlight = Set(open.map(\.story))
            return open
        }
    }

    private var kafka: KafkaConfiguration { self.state.withLock(\.kafka) }
    private var isPaused: Bool { self.state.withLock(\.isPaused) }

    private func rest() async throws {
        self.state.withLock { $0.isAtRest = true }
        while self.isPaused { try await Task.sleep(for: .milliseconds(20)) }
        self.state.withLock { $0.isAtRest = false }
    }

    /// Stops publishing until `resume`; returns once everything sent is acknowledged.
    func pause() async throws {
        self.state.withLock { $0.isPaused = true }
        while !self.state.withLock({ $0.isAtRest && $0.others == 0 }) { try await Task.sleep(for: .milliseconds(20)) }
    }

    /// Continues publishing.
    /// - Parameter kafka: the cluster to publish to from now on; nil keeps the current one.
    func resume(at kafka: KafkaConfiguration? = nil) {
        self.state.withLock { state in
            state.kafka = kafka ?? state.kafka
            state.isPaused = false
        }
    }

    /// Returns the steps before the first repeated order: if an order's first step was lost and sent again, it would
    /// arrive after its second one.
    static func distinct(_ steps: ArraySlice<ChaosPlan.Step>) -> ArraySlice<ChaosPlan.Step> {
        var keys: Set<[UInt8]> = []
        return steps.prefix { keys.insert($0.message.key ?? []).inserted }
    }

    private func note(_ step: ChaosPlan.Step, _ position: KafkaPosition) {
        self.state.withLock { state in
            if step.isFirst { state.placed.append(step.story) }
            guard let kind = step.broken else { return }
            let origin = "\(position.topic)/\(position.partition)/\(position.offset)"
            state.broken[origin] = BrokenRecord(kind: kind, message: step.message)
        }
    }
}
