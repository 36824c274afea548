import Kafka
import Synchronization

/// The present refusals by brokers, and the limit on log lines about them. No clock.
///
/// Bounded: one entry for each right that a service needs.
struct KafkaRefusals {
    /// The time after which a repeated refusal that has not recurred counts as over, longer than any pause between two
    /// attempts.
    static let memory = Duration.seconds(60)
    /// The time between two log lines about a refusal that lasts.
    static let pause = Duration.seconds(600)

    private struct Entry {
        var text: String
        var seen: ContinuousClock.Instant
        var logged: ContinuousClock.Instant
    }

    private var entries: [KafkaDenial: Entry] = [:]

    /// Notes that an operation was refused.
    ///
    /// - Returns: true if that is worth a log line.
    mutating func denied(_ denial: KafkaDenial, _ text: String, now: ContinuousClock.Instant) -> Bool {
        self.forget(now: now)
        guard var entry = self.entries[denial] else {
            self.entries[denial] = Entry(text: text, seen: now, logged: now)
            return true
        }
        entry.seen = now
        entry.text = text
        let isLogged = now - entry.logged >= Self.pause
        if isLogged { entry.logged = now }
        self.entries[denial] = entry
        return isLogged
    }

    /// Notes that an operation that was refused works now.
    mutating func granted(_ denial: KafkaDenial) { self.entries[denial] = nil }

    /// Notes that the group admitted us, which requires the right to read its topics.
    mutating func joined() { self.entries = self.entries.filter { !$0.key.lasts } }

    /// Notes that a broker answered a request made at a given time, so it accepts our identity.
    mutating func admitted(asked: ContinuousClock.Instant) {
        if let entry = self.entries[.access], entry.seen < asked { self.entries[.access] = nil }
    }

    /// Returns the present refusals, in a fixed order.
    mutating func reasons(now: ContinuousClock.Instant) -> [String] {
        self.forget(now: now)
        return self.entries.values.map(\.text).sorted()
    }

    private mutating func forget(now: ContinuousClock.Instant) {
        self.entries = self.entries.filter { $0.key.lasts || now - $0.value.seen < Self.memory }
    }
}

extension KafkaDenial {
    /// True if librdkafka reports this once, not with every attempt, so that silence does not mean that it is over.
    fileprivate var lasts: Bool {
        switch self {
        case .group, .read: true
        case .access, .write, .idempotence: false
        }
    }
}

/// The refusals met by all Kafka handles of a process.
final class KafkaRefusalBook: Sendable {
    private let refusals = Mutex(KafkaRefusals())

    /// Processes an event of a handle.
    ///
    /// - Returns: true if it belongs in the log.
    func record(_ event: KafkaEvent, now: ContinuousClock.Instant = .now) -> Bool {
        self.refusals.withLock { refusals in
            switch (event.kind, event.denial) {
            case (.denied, let denial): return refusals.denied(denial ?? .access, event.message, now: now)
            case (.granted, let denial?): refusals.granted(denial)
            case (.assigned, _): refusals.joined()
            default: break
            }
            return true
        }
    }

    func admitted(asked: ContinuousClock.Instant) { self.refusals.withLock { $0.admitted(asked: asked) } }

    var reasons: [String] { self.refusals.withLock { $0.reasons(now: .now) } }
}
