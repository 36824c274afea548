import CRDKafka
import Synchronization

/// A reader of partitions between two offsets, without a group: for restoring a view, for inspecting dead letters.
///
/// Owner: this object owns one C handle and ends it when the last read has ended.
/// Thread: one of its own for queries and single records, and one for each read of a range in progress.
/// Bounded: 16 simultaneous reads; each hands out one batch at a time and reads ahead `readAhead` (4 MiB) and one
/// fetch; a wait without progress by `patience`, and a call for single records as a whole.
public final class KafkaReader: Sendable {
    /// The most simultaneous reads; further ones are refused.
    public static let limit = 16

    private struct State {
        var reading: Set<KafkaPartition> = []
        var isClosing = false
        var closers: [CheckedContinuation<Void, Never>] = []
        /// Topics that brokers refuse to let us read.
        var refused: Set<String> = []
    }

    let handle: KafkaHandle
    let line: BlockingExecutor
    let patience: Duration
    let wakeup: FetchWakeup
    let reads: Mutex<RecordReads>
    private let onEvent: (@Sendable (KafkaEvent) -> Void)?
    private let state = Mutex(State())

    /// Connects in the background.
    ///
    /// - Parameters:
    ///   - patience: the time without any record or progress after which a read fails. A shorter broker outage goes
    ///     unnoticed.
    ///   - readAhead: KiB that are read ahead for each read.
    /// - Throws: `.configuration` naming the property.
    public convenience init(
        _ configuration: KafkaConfiguration, patience: Duration, readAhead: Int = 4096
    ) throws(KafkaError) {
        var defaults = Self.defaults
        defaults["queued.max.messages.kbytes"] = String(readAhead)
        try self.init(configuration, patience, defaults: defaults, fixed: Self.fixed)
    }

    /// Connects in the background, for `records(of:at:)`.
    ///
    /// - Parameter patience: the longest time of a call. A partition that does not answer is then left alone for as
    ///   long.
    /// - Throws: `.configuration` naming the property.
    public convenience init(
        ofSingleRecords configuration: KafkaConfiguration, patience: Duration
    ) throws(KafkaError) {
        try self.init(
            configuration, patience, defaults: Self.defaults, fixed: Self.fixed.merging(Self.single) { $1 })
    }

    private init(
        _ configuration: KafkaConfiguration, _ patience: Duration, defaults: [String: String],
        fixed: [String: String]
    ) throws(KafkaError) {
        self.patience = patience
        self.reads = Mutex(RecordReads(rest: patience))
        self.onEvent = configuration.onEvent
        let properties = try configuration.naming { () throws(KafkaError) in
            try configuration.resolved(defaults: defaults, fixed: fixed)
        }
        self.wakeup = FetchWakeup(properties)
        self.handle = try configuration.naming { () throws(KafkaError) in
            try unsafe KafkaHandle(
                RD_KAFKA_CONSUMER, properties: properties,
                callbacks: KafkaCallbacks(onEvent: configuration.onEvent))
        }
        self.line = try BlockingExecutor(name: "kafka-reader")
    }

    /// Connects in the background; a read fails after 30 s without progress.
    ///
    /// - Throws: `.configuration` naming the property.
    public convenience init(_ configuration: KafkaConfiguration) throws(KafkaError) {
        try self.init(configuration, patience: .seconds(30))
    }

    deinit {
        // Reads retain this object, so none is in progress.
        let handle = self.handle
        self.line.end { handle.destroy() }
    }

    /// Defaults that the caller's properties may override.
    static let defaults = [
        "client.id": "waybill",
        "queued.min.messages": "1000",
        // A fetch that finds nothing delays the partition that is read next by this much.
        "fetch.wait.max.ms": "10",
        "fetch.error.backoff.ms": "100",
        "socket.nagle.disable": "true",
        "allow.auto.create.topics": "false",
        "reconnect.backoff.max.ms": "2000",
    ]

    /// The records behind a single one are fetched in vain, and the next one waits for them. With less than two
    /// messages nothing is fetched, since the start of a fetch leaves a mark in its queue.
    /// Source: librdkafka 2.0.2, rd_kafka_toppar_fetch_decide, rd_kafka_toppar_op_version_bump
    private static let single = [
        "queued.min.messages": "2", "max.partition.fetch.bytes": "65536", "fetch.wait.max.ms": "1",
    ]

    /// The end of a partition must be reported, a truncated one begins at its first record, and nothing is committed.
    static let fixed = [
        "enable.partition.eof": "true", "auto.offset.reset": "earliest", "enable.auto.commit": "false",
        "enable.auto.offset.store": "false", "auto.commit.enable": "false",
    ]

    /// The identifier of the cluster, known once it has answered anything; empty if the cluster does not report it.
    /// Does not wait.
    public var cluster: String {
        (try? unsafe self.handle.use { raw throws(KafkaError) in unsafe self.handle.cluster(raw) }) ?? ""
    }

    /// Returns the present bounds of each partition of a topic, in the order of partitions.
    ///
    /// - Throws: `.unknownTopic`; `.timedOut` or `.transport` within 10 s if no broker answers; `.closed`.
    public func bounds(of topic: String) async throws(KafkaError) -> [OffsetRange] {
        let handle = self.handle
        return try await self.line.run { () throws(KafkaError) in
            try unsafe handle.use { raw throws(KafkaError) in
                let wait: Int32 = 10_000
                let count = try unsafe TopicQuery.partitions(raw, topic, timeoutMilliseconds: wait).count
                // The beginning is queried first: an end that is queried later cannot be before it.
                let first = try unsafe OffsetQuery.offsets(
                    raw, topic, count, at: Int64(RD_KAFKA_OFFSET_BEGINNING), timeoutMilliseconds: wait)
                let end = try unsafe OffsetQuery.offsets(
                    raw, topic, count, at: Int64(RD_KAFKA_OFFSET_END), timeoutMilliseconds: wait)
                return (0..<Int32(clamping: count)).map { partition in
                    let begins = first[partition] ?? 0
                    return OffsetRange(partition: partition, first: begins, end: max(begins, end[partition] ?? 0))
                }
            }
        }
    }

    /// Hands the records from `from` up to, not including, `to` to `body`, batch by batch and in order.
    ///
    /// Ends when the position has reached `to`, even if the last offsets hold no records. If the broker has deleted
    /// `from`, begins at the first existing record. Tombstones have a nil value. The next batch is fetched while `body`
    /// works and handed out when it is done; the time of `body` does not count as waiting.
    /// - Parameters:
    ///   - records: at most this many in a batch, at least 1.
    ///   - bytes: a batch ends when the sum of its records' `KafkaRecord.size` reaches this; the last one may exceed
    ///     it.
    ///   - began: called with the partition's bounds, before the first batch.
    public func read(
        _ topic: String, partition: Int32, from: Int64, to: Int64, records: Int, bytes: Int,
        began: (OffsetRange) -> Void = { _ in }, _ body: ([KafkaRecord]) async throws -> Void
    ) async throws {
        if from >= to { return }
        let name = KafkaPartition(topic: topic, partition: partition)
        try self.begin(name)
        defer { self.end(name) }
        let line = try BlockingExecutor(name: "kafka-read")
        let fetch: PartitionFetch
        do {
            var wakeup = self.wakeup
            wakeup.begin()
            fetch = try PartitionFetch(self.handle, topic: topic, partition: partition, wakeup: wakeup)
        } catch {
            line.end()
            throw error
        }
        var progress = ReadProgress(
            name: name.description, from: max(0, from), to: to, patience: self.patience, now: .now)
        let outcome: Result<Void, any Error>
        do {
            began(try await self.start(fetch, line, &progress))
            while !progress.isDone {
                let batch = try await self.take(fetch, line, &progress, records: records, bytes: bytes)
                if batch.isEmpty { continue }
                try await body(batch)
                progress.moved(now: .now)
            }
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        // The fetch stops before the next read of this partition may begin; the only bound on stopping is librdkafka's
        // own thread, which answers immediately.
        try? await line.run { () throws(KafkaError) in fetch.stop() }
        line.end()
        switch outcome {
        case .success: self.granted(topic)
        case .failure(let error as KafkaError): self.tell(error, of: topic)
        case .failure: break
        }
        try outcome.get()
    }

    /// Reports an error if it is a refusal, with the right to grant.
    func tell(_ error: KafkaError, of topic: String) {
        let event = KafkaEvent(.warning, error, .reader, topic: topic)
        guard event.kind == .denied else { return }
        if case .read(let topic)? = event.denial { self.state.withLock { _ = $0.refused.insert(topic) } }
        self.onEvent?(event)
    }

    /// Reports that a topic can be read, if that was refused.
    func granted(_ topic: String) {
        guard self.state.withLock({ $0.refused.remove(topic) != nil }) else { return }
        self.onEvent?(
            KafkaEvent(severity: .info, kind: .granted, message: "reading \(topic)", denial: .read(topic: topic)))
    }

    var isClosing: Bool { self.state.withLock { $0.isClosing } }

    /// Makes reads in progress fail with `.closed` and ends the threads. Calling it again is harmless.
    public func close() async {
        await withCheckedContinuation { continuation in
            let isEmpty = self.state.withLock { state in
                state.isClosing = true
                if !state.reading.isEmpty { state.closers.append(continuation) }
                return state.reading.isEmpty
            }
            if isEmpty { continuation.resume() }
        }
        let handle = self.handle
        await withCheckedContinuation { continuation in
            let isFirst = self.line.end {
                handle.destroy()
                continuation.resume()
            }
            if !isFirst { continuation.resume() }
        }
    }

    /// Notes that a partition is read.
    func begin(_ name: KafkaPartition) throws(KafkaError) {
        let refusal: KafkaError? = self.state.withLock { state in
            if state.isClosing { return KafkaError(.closed, "reading \(name): the reader is closed") }
            if state.reading.count >= Self.limit {
                return KafkaError(.busy, "reading \(name): \(Self.limit) reads are under way")
            }
            if state.reading.insert(name).inserted { return nil }
            return KafkaError(.busy, "reading \(name): it is being read")
        }
        if let refusal { throw refusal }
    }

    func end(_ name: KafkaPartition) {
        let closers = self.state.withLock { state -> [CheckedContinuation<Void, Never>] in
            state.reading.remove(name)
            guard state.isClosing, state.reading.isEmpty else { return [] }
            defer { state.closers = [] }
            return state.closers
        }
        for closer in closers { closer.resume() }
    }

    /// Queries the bounds of the partition, for as long as the patience lasts, and starts to fetch.
    private func start(
        _ fetch: PartitionFetch, _ line: BlockingExecutor, _ progress: inout ReadProgress
    ) async throws(KafkaError) -> OffsetRange {
        var bounds: OffsetRange
        while true {
            try self.checkGoesOn(progress)
            do throws(KafkaError) {
                bounds = try await line.run { () throws(KafkaError) in try fetch.query(milliseconds: 1000) }
                try progress.begin(bounds)
                break
            } catch {
                guard error.mayPass else { throw error }
                progress.complained(error)
                try? await Task.sleep(for: .milliseconds(100))
            }
        }
        progress.moved(now: .now)
        let position = progress.position
        if progress.isDone { return bounds }
        try await line.run { () throws(KafkaError) in try fetch.start(at: position) }
        return bounds
    }

    private func take(
        _ fetch: PartitionFetch, _ line: BlockingExecutor, _ progress: inout ReadProgress, records: Int, bytes: Int
    ) async throws(KafkaError) -> [KafkaRecord] {
        try self.checkGoesOn(progress)
        let before = progress
        let (batch, after) = try await line.run { () throws(KafkaError) in
            var progress = before
            let batch = try fetch.take(&progress, records: max(1, records), bytes: max(1, bytes))
            return (batch, progress)
        }
        progress = after
        if progress.position > before.position { progress.moved(now: .now) }
        return batch
    }

    private func checkGoesOn(_ progress: ReadProgress) throws(KafkaError) {
        if Task.isCancelled { throw KafkaError(.cancelled, "reading \(progress.name): cancelled") }
        if self.isClosing {
            throw KafkaError(.closed, "reading \(progress.name): the reader was closed")
        }
        try progress.check(now: .now)
    }
}
