import Kafka
import Model
import Operations
import Store
import Synchronization

/// Keeps a record that ends each pusher from stopping the others: what is looked up is marked before it is decoded, the
/// records that ended pushers had in work are taken one at a time, and one that ended several becomes a dead letter.
///
/// Thread: any. Bounded: as `SuspectKeys`.
final class PushSuspects: Sendable {
    private let marks: WorkMarks
    private let keys = Mutex(SuspectKeys())

    init(_ marks: WorkMarks) { self.marks = marks }

    /// Notes that partitions came.
    func assigned() { self.keys.withLock { $0.assigned() } }

    /// Reads what ended pushers had in work, if partitions came since it was last read. Tries that for
    /// `SuspectKeys.patience` at most: one of several servers may be away.
    ///
    /// - Returns: the number of suspects if it was read.
    /// - Throws: only when the task is cancelled.
    func examine() async throws -> Int? {
        let assignment = self.keys.withLock { $0.unexamined }
        guard let assignment else { return nil }
        let deadline = ContinuousClock.now + SuspectKeys.patience
        var found: [SuspectKeys.Digest: SuspectKeys.Beginnings]?
        while found == nil, .now < deadline {
            do {
                found = try await self.marks.examine()
            } catch {
                try await Task.sleep(for: .milliseconds(100))
            }
        }
        return self.keys.withLock { keys in
            keys.learn(found ?? [:], after: assignment, now: .now)
            return keys.count
        }
    }

    /// Divides records into those that are taken one at a time, and the others.
    func divide(_ records: [KafkaRecord]) -> (suspects: [KafkaRecord], others: [KafkaRecord]) {
        self.keys.withLock { keys in
            guard !keys.isEmpty else { return ([], records) }
            return (records.filter { keys.contains($0.key) }, records.filter { !keys.contains($0.key) })
        }
    }

    /// Marks what is about to be decoded; a mark that cannot be set is left out.
    func mark(_ records: [KafkaRecord], slot: Int) async {
        var keys: [[UInt8]?] = []
        var seen: Set<[UInt8]?> = []
        for record in records where seen.insert(record.key).inserted { keys.append(record.key) }
        try? await self.marks.set(self.marks.mark(slot: slot, keys))
    }

    /// Takes a record while nothing else is looked up.
    ///
    /// - Parameter limit: the time after which all upstreams have given up.
    /// - Returns: false if it must not be taken, since pushers ended with it.
    func alone(_ record: KafkaRecord, limit: Duration, _ take: () async -> Void) async -> Bool {
        let beginnings = self.keys.withLock { $0.begin(record.key, at: record.receipt.origin, now: .now) }
        if beginnings.count > SuspectKeys.mostBeginnings { return false }
        await self.marks.alone(record.key, beginnings, limit: limit, take)
        self.end(record)
        return true
    }

    /// Notes that a record which must not be taken has its dead letter.
    func refused(_ record: KafkaRecord) async {
        self.end(record)
        try? await self.marks.note(SuspectKeys.Digest(record.key), SuspectKeys.Beginnings())
    }

    private func end(_ record: KafkaRecord) {
        self.keys.withLock { $0.end(record.key, isDone: true, now: .now) }
    }

    /// Tells the others that this pusher lives, and releases suspects whose time is over. To be called every
    /// `WorkMarks.beat`.
    func beat() async -> Int {
        let (released, left) = self.keys.withLock { ($0.release(now: .now), $0.count) }
        try? await self.marks.beat()
        try? await self.marks.forget(released)
        return left
    }

    /// Removes the marks.
    func stop() async { try? await self.marks.end() }
}

extension PushDeadLetter {
    /// Returns the dead letter of a record that several pushers ended with. Nothing but its key is read.
    static func message(ofWorkerEndingRecord record: KafkaRecord, _ topics: Topics) -> KafkaMessage {
        let text = record.key.flatMap { String(validating: $0, as: UTF8.self) }
        let registration = record.topic == topics.registrations ? text.flatMap { try? RegistrationKey($0) } : nil
        let order = registration?.order ?? text.flatMap { try? OrderKey($0) }
        var value: JSONObject = [
            "records": 1, "attempts": 0, "history": [], "omitted": 0,
            "orderType": .string(order?.orderType.rawValue ?? ""),
        ]
        if let registration { value["device"] = .string(registration.device.rawValue) }
        let reason =
            "\(SuspectKeys.mostBeginnings) pushers ended while they had only this record in work: look into their logs "
            + "and crash reports, install a version in which that is mended, then notify the devices again"
        return KafkaMessage(
            topic: topics.deadLetters, key: order.map { Array($0.description.utf8) } ?? record.key,
            value: JSON.object(value).serialized,
            headers: [
                KafkaHeader(.error, text: PushDeadLetterCode.workerEnded.rawValue),
                KafkaHeader(.reason, text: reason), KafkaHeader(.origin, text: record.receipt.origin),
                KafkaHeader(name: "content-type", text: "application/json"),
            ])
    }
}
