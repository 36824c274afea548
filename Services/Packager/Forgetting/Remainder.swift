import Kafka
import Model
import Store

/// A place that has data of a removed order for a while.
struct Remainder: Hashable, Sendable {
    let place: String
    let what: String
    /// The latest end, in seconds since 1970; nil if there is no limit, or none that is known.
    let until: Int64?
    /// The settings that the end follows from.
    let reason: String

    var line: String {
        let end = self.until.map { RFC3339.format(epochSeconds: $0) } ?? "no date"
        return "  \(self.place): \(self.what): \(end) (\(self.reason))"
    }

    var json: JSON {
        [
            "place": .string(self.place), "what": .string(self.what), "reason": .string(self.reason),
            "until": self.until.map { .string(RFC3339.format(epochSeconds: $0)) } ?? .null,
        ]
    }
}

extension Remainder {
    /// Returns the remainder in a topic whose last records were written now.
    ///
    /// - Parameter settings: those in effect; a failure if the broker does not report them.
    static func topic(
        _ name: String, _ what: String, _ settings: Result<[String: String], KafkaError>, nowEpochSeconds now: Int64
    ) -> Remainder {
        let values: [String: String]
        switch settings {
        case .success(let known): values = known
        case .failure(let error):
            return Remainder(
                place: "topic \(name)", what: what, until: nil, reason: "its settings are not known: \(error.message)")
        }
        let policy = values["cleanup.policy"] ?? "delete"
        var ends: [TopicEnd] = []
        if policy.contains("delete") { ends.append(.deleting(values)) }
        if policy.contains("compact") { ends.append(.compacting(values)) }
        // The end of the one that comes first is the end.
        let seconds = ends.compactMap(\.milliseconds).min().map { now + ($0 + 999) / 1000 }
        return Remainder(
            place: "topic \(name)", what: what, until: seconds, reason: ends.map(\.reason).joined(separator: "; "))
    }

    /// Returns the topics that have data of orders, and what that is.
    ///
    /// - Parameter sources: topics that sources read.
    static func topics(_ topics: Topics, sources: [String]) -> [(name: String, what: String)] {
        Topics.Kind.allCases.flatMap { kind -> [(String, String)] in
            switch kind {
            case .orderChanges:
                topics.orderChangeSources.map { ($0, "changes as they were published") }
                    + sources.map { ($0, "records that changes were made of") }
            case .orders: [(topics.orders, "versions of the order")]
            case .registrations: [(topics.registrations, "devices and their push tokens")]
            case .deadLetters:
                [(topics.deadLetters, "dead letters; those of sources that name no order are not closed")]
            case .pushPending: [(topics.pushPending, "devices that wait to be notified")]
            case .adoption: []
            }
        }
    }

    /// Returns the remainders outside Kafka.
    static func others(nowEpochSeconds now: Int64) -> [Remainder] {
        func undated(_ place: String, _ what: String, _ reason: String) -> Remainder {
            Remainder(place: place, what: what, until: nil, reason: reason)
        }
        return StoreKeyKind.allCases.compactMap { Self.redis($0, nowEpochSeconds: now) } + [
            undated("Redis, files and replicas", "all that was in it", "until BGREWRITEAOF, and in older snapshots"),
            undated("logs", "its key, and reasons that may cite a change", "as long as they are kept"),
            undated("the customer's devices", "the package", "until the customer removes the order"),
        ]
    }

    /// - Returns: nil for keys that a removal ends, and for those that have nothing of an order.
    private static func redis(_ kind: StoreKeyKind, nowEpochSeconds now: Int64) -> Remainder? {
        guard let data = kind.personalData else { return nil }
        let place = "Redis, \(kind.rawValue)"
        switch data.end {
        case .removal: return nil
        case .event(let event): return Remainder(place: place, what: data.what, until: nil, reason: event)
        case .seconds(let seconds):
            return Remainder(
                place: place, what: data.what, until: now + seconds,
                reason: "\(Self.life(seconds)) after the removal, or after its last use")
        }
    }

    /// Returns a time in the greatest unit of which it is a multiple.
    static func life(_ seconds: Int64) -> String {
        let (unit, length): (String, Int64) =
            seconds % 86_400 == 0 ? ("day", 86_400) : seconds % 3600 == 0 ? ("hour", 3600) : ("minute", 60)
        return (seconds / length).counted(unit)
    }
}

/// The time after which a topic has lost a record that was written now.
private struct TopicEnd {
    /// Nil for no limit.
    let milliseconds: Int64?
    let reason: String

    /// The end of a record that is deleted by its age.
    ///
    /// Kafka deletes whole segments, once the newest record of one is old enough; and a segment is filled for up to
    /// `segment.ms`. Source: Kafka documentation, topic configurations `retention.ms` and `segment.ms`
    static func deleting(_ values: [String: String]) -> TopicEnd {
        guard let retention = Self.number("retention.ms", values), retention >= 0 else {
            return TopicEnd(milliseconds: nil, reason: "retention.ms=\(values["retention.ms"] ?? "?"): no limit")
        }
        let segment = Self.segment(values)
        return TopicEnd(
            milliseconds: Self.sum(retention, segment), reason: "retention.ms=\(retention), segment.ms=\(segment)")
    }

    /// The end of a record that a newer one of its key replaces.
    ///
    /// The newer one has to leave the segment that is written to: that takes up to `segment.ms`, or
    /// `max.compaction.lag.ms` if it is shorter. Source: Kafka documentation, topic configurations; KIP-354
    static func compacting(_ values: [String: String]) -> TopicEnd {
        let lag = Self.number("max.compaction.lag.ms", values) ?? .max
        guard lag < .max else {
            return TopicEnd(milliseconds: nil, reason: "max.compaction.lag.ms is not set: no limit")
        }
        let segment = min(Self.segment(values), lag)
        let kept = values["delete.retention.ms"] ?? "?"
        return TopicEnd(
            milliseconds: Self.sum(segment, lag),
            reason: "max.compaction.lag.ms=\(lag), segment.ms=\(segment); its tombstone, with key and token, goes "
                + "with a compaction delete.retention.ms=\(kept) later")
    }

    /// Kafka's default is seven days.
    private static func segment(_ values: [String: String]) -> Int64 {
        Self.number("segment.ms", values) ?? 604_800_000
    }

    private static func number(_ name: String, _ values: [String: String]) -> Int64? {
        values[name].flatMap { Int64($0) }
    }

    /// - Returns: nil for more than a century, which is no limit.
    private static func sum(_ one: Int64, _ other: Int64) -> Int64? {
        let (sum, isTooLarge) = one.addingReportingOverflow(other)
        return isTooLarge || sum > 36_525 * 86_400_000 ? nil : sum
    }
}
