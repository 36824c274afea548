import Synchronization

extension KafkaReader {
    /// Reads single records by their offsets; those of different partitions at the same time.
    ///
    /// Takes the patience at most, however many partitions do not answer. Cancelling the task ends the wait.
    /// - Returns: one result for each, in order; nil if there is no record at the offset, because it was compacted, or
    ///   the topic was made anew.
    public func records(
        of topic: String, at places: [(partition: Int32, offset: Int64)]
    ) async -> [Result<KafkaRecord?, KafkaError>] {
        guard !places.isEmpty else { return [] }
        let call = RecordCall(count: places.count)
        let now = ContinuousClock.now
        let serves = self.reads.withLock {
            $0.add(call, of: topic, at: places, now: now, deadline: now + self.patience)
        }
        if serves { Task { await self.serve() } }  // tidy: it outlives the call, and ends with the last read
        return await withTaskCancellationHandler {
            await call.results()
        } onCancel: {
            call.end(KafkaError(.cancelled, "reading records of \(topic): cancelled"))
        }
    }

    /// Serves all calls, turn by turn, until nothing is asked for. One task does it at a time.
    private func serve() async {
        var fetches = SingleFetches()
        while true {
            do throws(KafkaError) {
                let before = fetches
                let isOver: Bool
                (fetches, isOver) = try await self.line.run { () throws(KafkaError) in
                    var fetches = before
                    let isOver = self.turn(&fetches, now: .now)
                    return (fetches, isOver)
                }
                if isOver { return }
            } catch {
                guard error.code == .queueFull else {
                    // The line ends when no partition is read any more.
                    for read in self.reads.withLock({ $0.clear() }) { read.call.end(error) }
                    return
                }
                try? await Task.sleep(for: .milliseconds(Int(SingleFetches.turn)))
            }
        }
    }

    /// Begins, continues and ends fetches. On the thread of queries.
    ///
    /// - Returns: true if nothing is asked for any more.
    private func turn(_ fetches: inout SingleFetches, now: ContinuousClock.Instant) -> Bool {
        if self.isClosing {
            let error = KafkaError(.closed, "reading records: the reader was closed")
            for name in fetches.names { self.end(name, &fetches)?.call.end(error) }
            for read in self.reads.withLock({ $0.clear() }) { read.call.end(error) }
            return true
        }
        for (name, read) in self.reads.withLock({ $0.next(room: Self.limit - fetches.count) }) {
            do throws(KafkaError) {
                try fetches.begin(name, read, of: self, now: now)
            } catch {
                read.call.finish(read.index, .failure(error))
                self.reads.withLock { $0.answered(name) }
            }
        }
        var isIdle = true
        for name in fetches.names {
            guard let result = fetches.step(name, wait: 0) else { continue }
            isIdle = false
            self.finish(name, result, &fetches, now: now)
        }
        if isIdle, let name = fetches.newest, let result = fetches.step(name, wait: SingleFetches.turn) {
            self.finish(name, result, &fetches, now: now)
        }
        self.giveUp(&fetches, now: .now)
        return fetches.count == 0 && self.reads.withLock { $0.isOver() }
    }

    /// Ends what has waited for too long: reads at their deadline, and fetches whose place others need.
    private func giveUp(_ fetches: inout SingleFetches, now: ContinuousClock.Instant) {
        for (name, error) in fetches.overdue(now: now) { self.finish(name, .failure(error), &fetches, now: now) }
        for (name, read) in self.reads.withLock({ $0.overdue(now: now) }) {
            let error = KafkaError(
                .timedOut, "reading \(name): other partitions do not answer, and take its place", isRetriable: true)
            read.call.finish(read.index, .failure(error))
        }
        if self.reads.withLock({ $0.isCrowded }), fetches.count >= Self.limit, let name = fetches.slowest(now: now),
            let read = self.end(name, &fetches)
        {
            self.reads.withLock { $0.putBack(name, read) }
        }
        if let topic = fetches.topicToAskAbout(now: now) { self.ask(about: topic, &fetches, now: now) }
        fetches.wake(of: self, now: now)
    }

    /// Finds out why partitions do not answer: a refusal reaches the queue of a partition once at most.
    private func ask(about topic: String, _ fetches: inout SingleFetches, now: ContinuousClock.Instant) {
        do throws(KafkaError) {
            let partitions = try unsafe self.handle.use { raw throws(KafkaError) in
                try unsafe TopicQuery.partitions(raw, topic, timeoutMilliseconds: SingleFetches.question)
            }
            fetches.learn(partitions, of: topic)
        } catch {
            for name in fetches.names where name.topic == topic {
                if error.mayPass {
                    fetches.complain(name, error)
                } else {
                    self.finish(name, .failure(error), &fetches, now: now)
                }
            }
        }
    }

    /// Ends the fetch of a partition with the result of its read.
    private func finish(
        _ name: KafkaPartition, _ result: Result<KafkaRecord?, KafkaError>, _ fetches: inout SingleFetches,
        now: ContinuousClock.Instant
    ) {
        guard let read = self.end(name, &fetches) else { return }
        switch result {
        case .success(let record):
            if record != nil { self.granted(name.topic) }
            read.call.finish(read.index, result)
            self.reads.withLock { $0.answered(name) }
        case .failure(let error):
            self.tell(error, of: name.topic)
            let (error, others) = self.reads.withLock { $0.failed(name, error, now: now) }
            for other in [read] + others { other.call.finish(other.index, .failure(error)) }
        }
    }

    private func end(_ name: KafkaPartition, _ fetches: inout SingleFetches) -> RecordReads.Read? {
        let read = fetches.end(name)
        if read != nil { self.end(name) }
        return read
    }
}

/// The fetches of single records that are under way.
private struct SingleFetches: Sendable {
    /// The longest wait for a record in a turn, in milliseconds.
    static let turn: Int32 = 2
    /// The longest wait for an answer about a topic, in milliseconds.
    static let question: Int32 = 100
    /// The time after which a fetch without an answer leaves its place to others, and is asked about.
    static let slow = Duration.milliseconds(250)
    /// The time between two questions about topics.
    private static let pause = Duration.seconds(1)

    private struct Active: Sendable {
        let fetch: PartitionFetch
        let read: RecordReads.Read
        let since: ContinuousClock.Instant
        var progress: ReadProgress
        /// The time to wake the thread of the broker, and until the next time, which doubles.
        var wakeAt: ContinuousClock.Instant
        var pause = Duration.milliseconds(5)
    }

    private var active: [KafkaPartition: Active] = [:]
    private var askAt: ContinuousClock.Instant?

    var count: Int { self.active.count }
    var names: [KafkaPartition] { Array(self.active.keys) }
    /// The partition whose fetch began last: it answers next, if any does.
    var newest: KafkaPartition? { self.active.max { $0.value.since < $1.value.since }?.key }

    /// The partition that has not answered for longest, and for long.
    func slowest(now: ContinuousClock.Instant) -> KafkaPartition? {
        self.active.min { $0.value.since < $1.value.since }.flatMap { now - $0.value.since >= Self.slow ? $0.key : nil }
    }

    /// Starts to fetch a record.
    mutating func begin(
        _ name: KafkaPartition, _ read: RecordReads.Read, of reader: KafkaReader, now: ContinuousClock.Instant
    ) throws(KafkaError) {
        try reader.begin(name)
        do throws(KafkaError) {
            let fetch = try PartitionFetch(
                reader.handle, topic: name.topic, partition: name.partition, wakeup: reader.wakeup)
            do throws(KafkaError) {
                try fetch.start(at: read.offset)
            } catch {
                fetch.stop()
                throw error
            }
            let progress = ReadProgress(
                name: name.description, from: read.offset, to: read.offset &+ 1, patience: reader.patience, now: now)
            self.active[name] = Active(
                fetch: fetch, read: read, since: now, progress: progress, wakeAt: now + .milliseconds(5))
        } catch {
            reader.end(name)
            throw error
        }
    }

    /// Ends the fetch of a partition.
    mutating func end(_ name: KafkaPartition) -> RecordReads.Read? {
        guard let ended = self.active.removeValue(forKey: name) else { return nil }
        ended.fetch.stop()
        return ended.read
    }

    /// Looks for the record of a partition.
    ///
    /// - Returns: nil if it is not known yet; a success without a record if there is none.
    mutating func step(_ name: KafkaPartition, wait: Int32) -> Result<KafkaRecord?, KafkaError>? {
        guard var one = self.active[name] else { return nil }
        if one.read.call.isOver { return .success(nil) }
        defer { self.active[name]?.progress = one.progress }
        do throws(KafkaError) {
            let record = try one.fetch.take(&one.progress, records: 1, bytes: 1, wait: wait).first
            return record != nil || one.progress.isDone || one.progress.isAtEnd ? .success(record) : nil
        } catch {
            // The offset is outside of the partition.
            return error.code == .outOfRange ? .success(nil) : .failure(error)
        }
    }

    /// Returns the partitions whose read is at its deadline.
    func overdue(now: ContinuousClock.Instant) -> [(KafkaPartition, KafkaError)] {
        self.active.filter { $0.value.read.deadline <= now }.map { ($0.key, $0.value.progress.timedOut) }
    }

    /// Returns a topic that a partition without an answer belongs to, if it is time to ask about it.
    mutating func topicToAskAbout(now: ContinuousClock.Instant) -> String? {
        guard self.askAt.map({ $0 <= now }) ?? true, let name = self.slowest(now: now) else { return nil }
        self.askAt = now + Self.pause
        return name.topic
    }

    /// Notes which partitions have no leader.
    mutating func learn(_ partitions: [KafkaPartitionState], of topic: String) {
        for name in self.names where name.topic == topic {
            guard let index = Int(exactly: name.partition), partitions.indices.contains(index),
                !partitions[index].hasLeader
            else { continue }
            self.complain(name, KafkaError(.transport, "the partition has no leader"))
        }
    }

    mutating func complain(_ name: KafkaPartition, _ error: KafkaError) {
        self.active[name]?.progress.complained(error)
    }

    /// Wakes the threads of brokers that have not answered: they may have been busy, or have become other ones.
    mutating func wake(of reader: KafkaReader, now: ContinuousClock.Instant) {
        let due = self.active.filter { $0.value.wakeAt <= now }.map(\.key)
        for name in due {
            guard var one = self.active[name] else { continue }
            one.pause = min(one.pause * 2, Self.slow)
            one.wakeAt = now + one.pause
            self.active[name] = one
        }
        try? unsafe reader.handle.use { raw in unsafe FetchWakeup.wake(raw, due) }
    }
}
