import Kafka
import Synchronization

/// The refusals of brokers that stand, and how often the log is told. No clock.
///
/// Bounded: one entry for each right that a service needs.
struct KafkaRefusals {
    /// A refusal that is met again and again counts as over when it was not met for so long, which is longer than any
    /// pause between two tries.
    static let memory = Duration.seconds(60)
    /// The time between two lines of the log about a refusal that lasts.
    static let pause = Duration.seconds(600)

    private struct Entry {
        var text: String
        var seen: ContinuousClock.Instant
        var told: ContinuousClock.Instant
    }

    private var entries: [KafkaDenial: Entry] = [:]

    /// Something was refused.
    ///
    /// - Returns: whether that is worth a line.
    mutating func denied(_ denial: KafkaDenial, _ text: String, now: ContinuousClock.Instant) -> Bool {
        self.forget(now: now)
        guard var entry = self.entries[denial] else {
            self.entries[denial] = Entry(text: text, seen: now, told: now)
            return true
        }
        entry.seen = now
        entry.text = text
        let isTold = now - entry.told >= Self.pause
        if isTold { entry.told = now }
        self.entries[denial] = entry
        return isTold
    }

    /// A refused thing works.
    mutating func granted(_ denial: KafkaDenial) { self.entries[denial] = nil }

    /// The group let us in, which it does when we may read its topics.
    mutating func joined() { self.entries = self.entries.filter { !$0.key.lasts } }

    /// A broker answered a question that was asked at a moment: it knows who we are.
    mutating func admitted(asked: ContinuousClock.Instant) {
        if let entry = self.entries[.access], entry.seen < asked { self.entries[.access] = nil }
    }

    /// The refusals that stand, in a fixed order.
    mutating func reasons(now: ContinuousClock.Instant) -> [String] {
        self.forget(now: now)
        return self.entries.values.map(\.text).sorted()
    }

    private mutating func forget(now: ContinuousClock.Instant) {
        self.entries = self.entries.filter { $0.key.lasts || now - $0.value.seen < Self.memory }
    }
}

extension KafkaDenial {
    /// librdkafka says this once, not with every try, so that silence does not mean that it is over.
    fileprivate var lasts: Bool {
        switch self {
        case .group, .read: true
        case .access, .write, .idempotence: false
        }
    }
}

/// The refusals that all Kafka handles of a process have met.
final class KafkaRefusalBook: Sendable {
    private let refusals = Mutex(KafkaRefusals())

    /// Takes in what a handle tells.
    ///
    /// - Returns: whether it belongs in the log.
    func note(_ event: KafkaEvent, now: ContinuousClock.Instant = .now) -> Bool {
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
