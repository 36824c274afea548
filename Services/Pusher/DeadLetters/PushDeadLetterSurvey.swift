import Kafka
import Model
import Operations

/// Finds the registrations that dead letters of notifications name.
///
/// Bounded: `limit` registrations, at some hundred bytes each; the dead letters as `DeadLetterIndex`.
struct PushDeadLetterSurvey: Sendable {
    /// The most registrations that are remembered.
    static let limit = 1_000_000
    /// Dead letters that are read together.
    private static let page = 1000

    /// The code of the dead letters to read; nil: that of any notification.
    let code: String?
    /// The earliest time of the dead letters to read, in milliseconds since 1970; nil: any.
    let since: Int64?
    /// True to read dead letters that were closed as well.
    var takesClosed = false
    var limit = Self.limit

    /// The result of a survey.
    struct Found: Sendable {
        var deadLetterCount = 0
        /// Each once. A device has one for each of its orders, since it may have left any of them.
        var keys: [PendingPushKey] = []
        var isOverfull = false
    }

    /// - Throws: `KafkaError`; `.unknownTopic` if there is no such topic.
    func read(_ kafka: KafkaConfiguration, topic: String) async throws -> Found {
        let reader = try KafkaReader(kafka)
        return try await withCleanup(reader.close) {
            try await self.read(DeadLetterTopic(reader: reader, topic: topic))
        }
    }

    private func read(_ letters: DeadLetterTopic) async throws -> Found {
        var filter = DeadLetterFilter(code: self.code, isPush: true)
        filter.since = self.since
        let index = try await letters.survey(filter, closed: self.takesClosed)
        var found = Found(deadLetterCount: index.entries.count, isOverfull: index.isOverfull)
        var known: Set<PendingPushKey> = []
        let entries = index.entries.sorted { $0.position < $1.position }
        try await letters.pages(of: entries, Self.page, Self.key(of:)) { page in
            for case (_, let key?) in page where known.insert(key).inserted {
                if found.keys.count < self.limit { found.keys.append(key) } else { found.isOverfull = true }
            }
        }
        return found
    }

    /// Returns the registration of a dead letter, or the order of which no device was notified; nil if it names none.
    static func key(of letter: DeadLetterRecord) -> PendingPushKey? {
        guard let order = try? OrderKey(letter.order), let value = letter.notification else { return nil }
        guard let device = value["device"] else { return PendingPushKey(order: order) }
        return device.string.flatMap { try? DeviceIdentifier($0) }.map { PendingPushKey(order: order, device: $0) }
    }
}

/// Writes registrations to the pending topic.
struct PendingPushWriter: Sendable {
    let producer: KafkaProducer
    let topic: String
    /// Registrations per second.
    let rate: Int
    let nowEpochMilliseconds: Int64

    /// - Throws: the `KafkaError` of the first registration that was not written.
    func write(_ keys: [PendingPushKey]) async throws {
        let start = ContinuousClock.now
        let step = max(1, min(1000, self.rate / 4))
        for first in stride(from: 0, to: keys.count, by: step) {
            let end = min(first + step, keys.count)
            let messages = keys[first..<end].map { key in
                ParkedPush(key: key, receipts: [], epochMilliseconds: self.nowEpochMilliseconds)
                    .message(self.topic, nowEpochMilliseconds: self.nowEpochMilliseconds)
            }
            for outcome in await self.producer.produce(messages) { _ = try outcome.get() }
            if end < keys.count { try await Task.sleep(until: start + .seconds(end) / self.rate) }
        }
    }
}
