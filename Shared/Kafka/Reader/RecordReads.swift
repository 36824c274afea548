import Synchronization

/// One call for single records: it ends when each of its reads has a result.
final class RecordCall: Sendable {
    typealias Found = Result<KafkaRecord?, KafkaError>

    private struct State {
        var results: [Found?]
        /// Reads without a result.
        var open: Int
        var waiter: CheckedContinuation<[Found], Never>?

        /// Returns the results once, to who waits for them, if they are complete.
        mutating func take() -> (CheckedContinuation<[Found], Never>, [Found])? {
            guard self.open == 0, let waiter = self.waiter else { return nil }
            self.waiter = nil
            return (waiter, self.results.compactMap(\.self))
        }
    }

    private let state: Mutex<State>

    init(count: Int) { self.state = Mutex(State(results: Array(repeating: nil, count: count), open: count)) }

    /// True if nothing is waited for.
    var isOver: Bool { self.state.withLock { $0.open == 0 } }

    /// Notes the result of a read; a second one changes nothing.
    func finish(_ index: Int, _ result: Found) {
        let ended = self.state.withLock { state -> (CheckedContinuation<[Found], Never>, [Found])? in
            guard state.results[index] == nil else { return nil }
            state.results[index] = result
            state.open -= 1
            return state.take()
        }
        ended?.0.resume(returning: ended?.1 ?? [])
    }

    /// Ends all reads that have no result.
    func end(_ error: KafkaError) {
        for index in self.state.withLock({ $0.results.indices }) { self.finish(index, .failure(error)) }
    }

    /// Waits for the results. Call it once.
    func results() async -> [Found] {
        await withCheckedContinuation { waiter in
            let ended = self.state.withLock { state in
                state.waiter = waiter
                return state.take()
            }
            ended?.0.resume(returning: ended?.1 ?? [])
        }
    }
}

/// The single records that are asked for, by all calls: decides which partition is read next, and which reads are
/// given up. No C, no clock.
///
/// The records of a partition are read one after another, those of different partitions at the same time. A partition
/// that does not answer holds up no other one: its reads fail together with the first of them that does, and so do
/// those that are asked for within `rest` after that. From then on, until it answers, it is tried for a fifth of that.
struct RecordReads {
    struct Read {
        let call: RecordCall
        let index: Int
        let offset: Int64
        let deadline: ContinuousClock.Instant
    }

    /// The time after which a failure is forgotten.
    private static let memory = Duration.seconds(600)

    /// The time for which a partition that did not answer is left alone.
    let rest: Duration
    private var queues: [KafkaPartition: [Read]] = [:]
    /// Partitions with reads and without a fetch, by the time since when.
    private var ready: [KafkaPartition] = []
    private var failures: [KafkaPartition: (error: KafkaError, until: ContinuousClock.Instant)] = [:]
    /// True while a task serves the reads.
    private var isServed = false

    init(rest: Duration) { self.rest = rest }

    /// True if partitions wait for a fetch.
    var isCrowded: Bool { !self.ready.isEmpty }

    /// Adds the reads of a call.
    ///
    /// - Returns: true if the caller has to serve the reads from now on, until `isOver`.
    mutating func add(
        _ call: RecordCall, of topic: String, at places: [(partition: Int32, offset: Int64)],
        now: ContinuousClock.Instant, deadline: ContinuousClock.Instant
    ) -> Bool {
        for (index, place) in places.enumerated().sorted(by: { $0.element < $1.element }) {
            let name = KafkaPartition(topic: topic, partition: place.partition)
            let failure = self.failures[name]
            if let failure, failure.until > now {
                call.finish(index, .failure(failure.error))
                continue
            }
            let end = failure == nil ? deadline : min(deadline, now + self.rest / 5)
            let read = Read(call: call, index: index, offset: place.offset, deadline: end)
            if self.queues[name]?.append(read) == nil {
                self.queues[name] = [read]
                self.ready.append(name)
            }
        }
        guard !self.isServed, !self.queues.isEmpty else { return false }
        self.isServed = true
        return true
    }

    /// Takes the partitions to read next, each with its first read. Those of calls that are over are dropped.
    mutating func next(room: Int) -> [(name: KafkaPartition, read: Read)] {
        var starts: [(name: KafkaPartition, read: Read)] = []
        while starts.count < room, !self.ready.isEmpty {
            let name = self.ready.removeFirst()
            var queue = self.queues[name] ?? []
            queue.removeAll { $0.call.isOver }
            guard !queue.isEmpty else {
                self.queues[name] = nil
                continue
            }
            starts.append((name, queue.removeFirst()))
            self.queues[name] = queue
        }
        return starts
    }

    /// Notes that the read of a partition has a result. The next one of the partition is ready.
    mutating func answered(_ name: KafkaPartition) {
        self.failures[name] = nil
        guard let queue = self.queues[name] else { return }
        if queue.isEmpty { self.queues[name] = nil } else { self.ready.append(name) }
    }

    /// Puts a read back whose fetch others need more.
    mutating func putBack(_ name: KafkaPartition, _ read: Read) {
        self.queues[name, default: []].insert(read, at: 0)
        self.ready.append(name)
    }

    /// Notes that a partition does not answer, or refuses.
    ///
    /// - Returns: the reason, and the other reads of the partition, which fail for it. A broker's refusal is the reason
    ///   until the partition answers, since librdkafka reports it once.
    mutating func failed(
        _ name: KafkaPartition, _ error: KafkaError, now: ContinuousClock.Instant
    ) -> (reason: KafkaError, others: [Read]) {
        self.failures = self.failures.filter { now - $0.value.until < Self.memory }
        let last = self.failures[name]?.error
        let reason = error.code == .timedOut && last?.code == .authorization ? last ?? error : error
        self.failures[name] = (reason, now + self.rest)
        self.ready.removeAll { $0 == name }
        return (reason, self.queues.removeValue(forKey: name) ?? [])
    }

    /// Takes the reads that have waited until their deadline for a fetch.
    mutating func overdue(now: ContinuousClock.Instant) -> [(name: KafkaPartition, read: Read)] {
        var overdue: [(name: KafkaPartition, read: Read)] = []
        for name in self.ready {
            overdue += (self.queues[name] ?? []).filter { $0.deadline <= now }.map { (name, $0) }
            self.queues[name]?.removeAll { $0.deadline <= now }
        }
        return overdue
    }

    /// Returns true if nothing is asked for any more: then the caller serves no longer.
    mutating func isOver() -> Bool {
        self.isServed = !self.queues.isEmpty
        return !self.isServed
    }

    /// Takes all reads.
    mutating func clear() -> [Read] {
        defer { (self.queues, self.ready, self.isServed) = ([:], [], false) }
        return self.queues.values.flatMap { $0 }
    }
}
