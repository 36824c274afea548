import Kafka
import Logging
import Model
import Operations
import ServiceLifecycle
import Synchronization

/// Replays dead letters to `waybill.order-changes`, in sequence per order, and publishes a marker for each.
///
/// May be stopped or killed at any time: a dead letter with a marker is not replayed again. A kill between the
/// acknowledgement and the marker replays a change twice, which `source` and `id` make harmless. A graceful shutdown
/// ends it after the dead letters in hand.
/// Bounded: a few dozen dead letters are in memory at a time.
final class DeadLetterReplay: Service {
    /// The counts of dead letters by outcome.
    struct Tally: Hashable, Sendable {
        var total = 0
        var replayed = 0
        /// Dead letters that are too large for the topic of changes.
        var refused = 0
        /// Dead letters that were deleted since they were counted.
        var gone = 0
        /// Dead letters whose orders were removed since they were counted.
        var removed = 0

        /// One line for a terminal.
        func line(seconds: Double) -> String {
            let done = self.replayed + self.refused + self.gone + self.removed
            let rate = seconds > 0 ? Int((Double(done) / seconds).rounded()) : 0
            return "\(done) of \(self.total) dead letters, \(rate)/s; \(self.replayed) replayed, "
                + "\(self.refused) refused, \(self.gone + self.removed) gone"
        }
    }

    /// The result of a replay.
    enum End: Hashable, Sendable {
        case done(Tally)
        /// Stopped on request; the next run continues.
        case stopped(Tally)
        /// Kafka stayed unavailable; the next run continues.
        case gaveUp(String, Tally)
    }

    /// Dead letters that are read and sent together.
    private static let chunk = 64
    /// The most attempts at an operation that fails in Kafka: some 20 s in all, not counting the waits for deliveries.
    private static let attemptLimit = 10

    /// The greatest age of knowledge about removals.
    private static let removalAge: Duration = .seconds(10)

    /// The time that packagers have for the last changes, if it counts how many of them fail.
    private static let verdictTime: Duration = .seconds(5)

    private let plan: ReplayPlan
    private let removals: RemovalLedger
    private let letters: DeadLetterTopic
    private let producer: KafkaProducer
    private let topics: Topics
    private let rate: Int
    private let stopAbove: Int?
    private let messages: @Sendable (DeadLetterRecord) async -> Result<[KafkaMessage], ChangeFault>
    private let logger: Logger
    private let report: @Sendable (_ line: String, _ isLast: Bool) -> Void
    private let outcome = Mutex<End?>(nil)
    private let tally: Mutex<Tally>

    /// - Parameters:
    ///   - rate: dead letters a second.
    ///   - stopAbove: ends the run when more than this percentage of the replayed changes are dead letters again.
    ///   - messages: makes the changes to publish of a dead letter, or tells why there are none still.
    ///   - report: called with each step, for people.
    init(
        _ plan: ReplayPlan, _ removals: RemovalLedger, letters: DeadLetterTopic, producer: KafkaProducer,
        topics: Topics,
        rate: Int, stopAbove: Int? = nil,
        messages: @escaping @Sendable (DeadLetterRecord) async -> Result<[KafkaMessage], ChangeFault>,
        logger: Logger,
        report: @escaping @Sendable (_ line: String, _ isLast: Bool) -> Void
    ) {
        self.plan = plan
        self.removals = removals
        self.letters = letters
        self.producer = producer
        self.topics = topics
        self.rate = rate
        self.stopAbove = stopAbove
        self.messages = messages
        self.logger = logger
        self.report = report
        self.tally = Mutex(Tally(total: plan.entries.count))
    }

    /// The result; nil until the replay ends.
    var end: End? { self.outcome.withLock { $0 } }

    func run() async throws {
        let start = ContinuousClock.now
        let end: End
        do {
            let isDone = try await self.work(since: start)
            let tally = self.tally.withLock { $0 }
            end = isDone ? .done(tally) : .stopped(tally)
        } catch let failure as Failing {
            end = .gaveUp(failure.description, self.tally.withLock { $0 })
        } catch let error as KafkaError {
            end = .gaveUp(error.message, self.tally.withLock { $0 })
        }
        self.show(since: start, isLast: true)
        self.outcome.withLock { $0 = end }
    }

    /// - Returns: false if it was stopped.
    private func work(since start: ContinuousClock.Instant) async throws -> Bool {
        var pace = RateLimiter(perSecond: self.rate)
        var removals = (ledger: self.removals, until: start + Self.removalAge)
        var judge = try await self.judge()
        let step = min(Self.chunk, max(1, self.rate / 4))
        for first in stride(from: 0, to: self.plan.entries.count, by: step) {
            guard !Task.isShuttingDownGracefully, !Task.isCancelled else { return false }
            if ContinuousClock.now >= removals.until {
                let ledger = removals.ledger
                removals.ledger = try await self.insist { () in
                    try await self.letters.readOn(ledger, topics: self.topics)
                }
                removals.until = .now + Self.removalAge
            }
            let all = self.plan.entries[first..<min(first + step, self.plan.entries.count)]
            let chunk = all.filter { removals.ledger.verdict($0) != .removed }
            self.tally.withLock { $0.removed += all.count - chunk.count }
            let found = try await self.insist { () in
                try await self.letters.letters(at: chunk.map(\.position)) { $0 }
            }
            let letters = chunk.compactMap { found[$0.position] }
            self.tally.withLock { $0.gone += chunk.count - letters.count }
            // The next one of an order is sent once the one before is acknowledged, so a retry cannot reorder them.
            for round in letters.rounds(by: \.orderHash) {
                let places = try await self.send(round)
                judge?.take(changesAt: places)
            }
            self.show(since: start, isLast: false)
            let wait = pace.wait(after: chunk.count, now: ContinuousClock.now - start)
            // Ends immediately on a graceful shutdown; the guard above does the rest.
            try? await cancelWhenGracefulShutdown { try await Task.sleep(for: wait) }
            try await self.look(&judge)
        }
        let deadline = ContinuousClock.now + Self.verdictTime
        while judge != nil, ContinuousClock.now < deadline, !Task.isShuttingDownGracefully, !Task.isCancelled {
            try? await cancelWhenGracefulShutdown { try await Task.sleep(for: .milliseconds(500)) }
            try await self.look(&judge)
        }
        return true
    }

    /// Too many of the replayed changes are dead letters again.
    private struct Failing: Error, CustomStringConvertible {
        let letters: Int
        let replayed: Int

        var description: String { "\(self.letters) of \(self.replayed) replayed changes are dead letters again" }
    }

    /// Returns an index that takes the dead letters of this run's changes from now on; nil if they end nothing.
    private func judge() async throws -> DeadLetterIndex? {
        guard self.stopAbove != nil else { return nil }
        var judge = DeadLetterIndex(DeadLetterFilter(places: []), changes: self.topics.orderChanges)
        _ = judge.readOn(to: try await self.insist { () in try await self.letters.bounds() })
        return judge
    }

    /// - Throws: `Failing`
    private func look(_ judge: inout DeadLetterIndex?) async throws {
        guard let index = judge, let stopAbove = self.stopAbove else { return }
        let next = try await self.insist { () in
            try await self.letters.readOn(index, to: try await self.letters.bounds())
        }
        judge = next
        let replayed = self.tally.withLock { $0.replayed }
        // Neither count exceeds `DeadLetterIndex.limit`.
        guard next.entries.count * 100 > replayed * stopAbove else { return }
        throw Failing(letters: next.entries.count, replayed: replayed)
    }

    /// - Returns: the places of the changes.
    private func send(_ letters: [DeadLetterRecord]) async throws -> [KafkaPosition] {
        var open = letters
        var places: [KafkaPosition] = []
        var attempt = 0
        while true {
            var (sent, failed): ([DeadLetterRecord], [DeadLetterRecord]) = ([], [])
            var failure: KafkaError?
            var drafts: [(letter: DeadLetterRecord, messages: [KafkaMessage])] = []
            for letter in open {
                if let messages = await self.made(of: letter) { drafts.append((letter, messages)) }
            }
            var outcomes = (await self.producer.produce(drafts.flatMap(\.messages)))[...]
            places += outcomes.compactMap { try? $0.get() }
            for (letter, messages) in drafts {
                let errors = outcomes.prefix(messages.count).compactMap { outcome in
                    if case .failure(let error) = outcome { error } else { nil }
                }
                outcomes = outcomes.dropFirst(messages.count)
                if let error = errors.first(where: { $0.code != .messageTooLarge }) {
                    failed.append(letter)
                    failure = error
                } else if let error = errors.first {
                    self.refuse(letter, error.message)
                } else {
                    sent.append(letter)
                }
            }
            // Immediately, even if others failed: a dead letter with a marker is not sent again.
            try await self.writeNotes(sent)
            guard let failure else { return places }
            open = failed
            attempt += 1
            try await self.pause(failure, attempt)
        }
    }

    /// - Returns: the changes of a dead letter; nil if it is refused.
    private func made(of letter: DeadLetterRecord) async -> [KafkaMessage]? {
        switch await self.messages(letter) {
        case .success(let messages): return messages
        case .failure(let fault):
            self.refuse(letter, fault.description)
            return nil
        }
    }

    private func refuse(_ letter: DeadLetterRecord, _ reason: String) {
        self.tally.withLock { $0.refused += 1 }
        let facts: Logger.Metadata = ["letter": "\(letter.position)", "error": "\(reason)"]
        let work = KeyedWork(key: letter.record.key, records: [letter.record])
        self.logger.warning("dead letter refused", metadata: work.metadata.merging(facts) { $1 })
    }

    private func writeNotes(_ letters: [DeadLetterRecord]) async throws {
        var open = letters
        var attempt = 0
        while !open.isEmpty {
            let outcomes = await self.producer.produce(open.map { $0.note(self.topics) })
            var failed: [DeadLetterRecord] = []
            var failure: KafkaError?
            for (letter, outcome) in zip(open, outcomes) {
                guard case .failure(let error) = outcome else { continue }
                failed.append(letter)
                failure = error
            }
            self.tally.withLock { $0.replayed += open.count - failed.count }
            guard let failure else { return }
            open = failed
            attempt += 1
            try await self.pause(failure, attempt)
        }
    }

    private func insist<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
        var attempt = 0
        while true {
            do {
                return try await body()
            } catch let error as KafkaError {
                attempt += 1
                try await self.pause(error, attempt)
            }
        }
    }

    /// - Throws: the error, if waiting does not help, the attempts are used up, or the run is being stopped.
    private func pause(_ error: KafkaError, _ attempt: Int) async throws {
        // A producer that failed fatally recreates itself.
        guard error.isRetriable || error.isFatal, attempt < Self.attemptLimit, !Task.isShuttingDownGracefully,
            !Task.isCancelled
        else { throw error }
        let delay = backoff(attempt: attempt, random: { Double.random(in: $0) })
        self.logger.warning("operation failed, retrying", metadata: ["error": "\(error.message)", "delay": "\(delay)"])
        try? await cancelWhenGracefulShutdown { try await Task.sleep(for: delay) }
    }

    private func show(since start: ContinuousClock.Instant, isLast: Bool) {
        let tally = self.tally.withLock { $0 }
        self.report(tally.line(seconds: (ContinuousClock.now - start) / .seconds(1)), isLast)
    }
}
