import Kafka

/// The requirements of a service on a topic.
public struct KafkaTopicNeed: Sendable {
    let name: String
    let isRead: Bool
    let isWritten: Bool
    /// True if the last record of each key must be kept forever; otherwise a newer record of the same key must not
    /// remove an older one.
    let isCompacted: Bool
    /// True if other programs than Waybill's write to it.
    let isForeign: Bool
    /// The size in bytes of the largest record that must fit.
    let messageBytes: Int
    /// The size in bytes of the largest possible record: a topic that does not accept it gets a warning.
    let largestBytes: Int

    public init(
        _ name: String, isRead: Bool = false, isWritten: Bool = false, isCompacted: Bool = false,
        isForeign: Bool = false, messageBytes: Int = 0, largestBytes: Int = 0
    ) {
        self.name = name
        self.isRead = isRead
        self.isWritten = isWritten
        self.isCompacted = isCompacted
        self.isForeign = isForeign
        self.messageBytes = messageBytes
        self.largestBytes = largestBytes
    }

    var rights: String {
        [self.isRead ? "Read" : nil, self.isWritten ? "Write" : nil].compactMap(\.self).joined(separator: " and ")
    }
}

/// A fault of a topic that affects a service's work.
struct KafkaFault: Hashable, Sendable {
    enum Kind: Hashable, Sendable {
        /// Records would be lost: a service must not start.
        case fatal
        /// All work stops until the configuration is corrected.
        case refused
        /// All work stops until brokers are back.
        case passing
        /// The work continues.
        case warning
    }

    let kind: Kind
    /// The fault, with the value found.
    let problem: String
    /// The correction; empty if there is none but to wait.
    let fix: String
    /// One line, with the correction.
    var text: String { self.fix.isEmpty ? self.problem : "\(self.problem): \(self.fix)" }
}

extension KafkaTopicNeed {
    /// Judges the cluster's description of the topic.
    ///
    /// - Parameters:
    ///   - partitions: a failure other than a refusal or a missing topic yields no fault.
    ///   - settings: those in effect; nil if the broker does not report them.
    func faults(
        _ partitions: Result<[KafkaPartitionState], KafkaError>, settings: [String: String]?
    ) -> [KafkaFault] {
        let found: [KafkaPartitionState]
        switch partitions {
        case .success(let partitions): found = partitions
        case .failure(let error) where error.code == .unknownTopic:
            return [KafkaFault(kind: .refused, problem: "topic \(self.name) does not exist", fix: "create it")]
        case .failure(let error) where error.code == .authorization:
            return [
                KafkaFault(
                    kind: .refused, problem: "topic \(self.name) is refused or does not exist",
                    fix: "grant \(self.rights) on topic \(self.name)")
            ]
        case .failure: return []
        }
        guard let settings else { return self.leaders(found) }
        return self.cleanup(settings) + self.leaders(found) + self.replicas(found, settings) + self.sizes(settings)
    }

    private func leaders(_ partitions: [KafkaPartitionState]) -> [KafkaFault] {
        let without = partitions.count { !$0.hasLeader }
        guard without > 0 else { return [] }
        return [
            KafkaFault(
                kind: .passing,
                problem: "topic \(self.name): \(without) of \(partitions.count) partitions have no leader: nothing is "
                    + "read or written there until brokers are back", fix: "")
        ]
    }

    private func cleanup(_ settings: [String: String]) -> [KafkaFault] {
        guard let policy = settings["cleanup.policy"] else { return [] }
        let parts = Set(policy.split(separator: ",").map { $0.filter { !$0.isWhitespace } })
        if self.isCompacted {
            guard parts != ["compact"] else { return [] }
            return [
                KafkaFault(
                    kind: .fatal,
                    problem: "topic \(self.name): cleanup.policy=\(policy) lets Kafka delete what must stay",
                    fix: self.command("cleanup.policy=compact"))
            ]
        }
        guard parts.contains("compact") else { return [] }
        return [
            KafkaFault(
                kind: .refused,
                problem: "topic \(self.name): cleanup.policy=\(policy) lets a record replace earlier ones, which are "
                    + "also needed", fix: self.command("cleanup.policy=delete"))
        ]
    }

    private func replicas(_ partitions: [KafkaPartitionState], _ settings: [String: String]) -> [KafkaFault] {
        guard self.isWritten, let least = settings["min.insync.replicas"].flatMap({ Int($0) }) else { return [] }
        let all = "\(partitions.count) partitions"
        let never = partitions.count { $0.replicas < least }
        if never > 0 {
            return [
                KafkaFault(
                    kind: .refused,
                    problem: "topic \(self.name): min.insync.replicas=\(least), but \(never) of \(all) have fewer "
                        + "replicas and take no writes",
                    fix: "add replicas, or \(self.command("min.insync.replicas=1"))")
            ]
        }
        let now = partitions.count { $0.hasLeader && $0.inSync < least }
        guard now > 0 else { return [] }
        return [
            KafkaFault(
                kind: .passing,
                problem: "topic \(self.name): \(now) of \(all) have fewer replicas in sync than min.insync.replicas="
                    + "\(least) and take no writes until brokers are back", fix: "")
        ]
    }

    private func sizes(_ settings: [String: String]) -> [KafkaFault] {
        guard self.isWritten, let most = settings["max.message.bytes"].flatMap({ Int($0) }) else { return [] }
        let wanted = max(self.messageBytes, self.largestBytes)
        guard most < wanted else { return [] }
        return [
            KafkaFault(
                kind: most < self.messageBytes ? .refused : .warning,
                problem: "topic \(self.name): max.message.bytes=\(most) is too small for the largest records",
                fix: self.command("max.message.bytes=\(wanted)"))
        ]
    }

    /// Returns the settings that do not stop the work now and may lose records later.
    func risks(_ partitions: [KafkaPartitionState], _ settings: [String: String]) -> [KafkaFault] {
        var risks: [KafkaFault] = []
        if settings["unclean.leader.election.enable"] == "true" {
            risks.append(
                KafkaFault(
                    kind: .fatal,
                    problem:
                        "topic \(self.name): unclean.leader.election.enable=true lets a broker without the last "
                        + "records take over, which loses them",
                    fix: self.command("unclean.leader.election.enable=false")))
        }
        let fewest = partitions.map(\.replicas).min() ?? 0
        if fewest == 1 {
            risks.append(
                KafkaFault(
                    kind: .warning, problem: "topic \(self.name): partitions have one replica, on one broker",
                    fix: "add replicas: kafka-reassign-partitions.sh --bootstrap-server … --execute"))
        } else if fewest > 2, settings["min.insync.replicas"] == "1" {
            risks.append(
                KafkaFault(
                    kind: .warning,
                    problem: "topic \(self.name): min.insync.replicas=1 lets a write be lost with one broker",
                    fix: self.command("min.insync.replicas=2")))
        }
        return risks
    }

    /// Returns the risk that a batch of other programs becomes much more in memory than the broker took.
    ///
    /// librdkafka unpacks a batch into memory as a whole, to any size. A broker that unpacks it itself holds it to
    /// `max.message.bytes`. Source: Kafka documentation, `compression.type`; rdkafka_msgset_reader.c at v2.0.2
    func compression(_ settings: [String: String]) -> [KafkaFault] {
        guard self.isForeign, let type = settings["compression.type"], type != Self.plain else { return [] }
        let most = settings["max.message.bytes"].map { " of \($0) bytes" } ?? ""
        return [
            KafkaFault(
                kind: .warning,
                problem: "topic \(self.name): compression.type=\(type) lets a batch\(most) unpack to a thousand times "
                    + "that in memory, so each of its producers can end a service that reads it",
                fix: "trust them all, or \(self.command("compression.type=\(Self.plain)"))")
        ]
    }

    /// The `compression.type` of a topic whose batches a broker stores unpacked.
    static let plain = "uncompressed"

    /// Returns the settings with which data of removed orders stays without a limit, or a removal may be lost.
    ///
    /// A setting that is not reported is not judged. Source: Kafka documentation, topic configurations; KIP-354
    func deadlines(_ settings: [String: String]) -> [KafkaFault] {
        func fault(_ name: String, _ problem: String, _ suggestion: Int64) -> KafkaFault {
            KafkaFault(
                kind: .warning, problem: "topic \(self.name): \(name)=\(settings[name] ?? "") \(problem)",
                fix: self.command("\(name)=\(suggestion)"))
        }
        func isEndless(_ name: String) -> Bool {
            settings[name].flatMap { Int64($0) }.map { $0 < 0 || $0 > Self.century } ?? false
        }
        var faults: [KafkaFault] = []
        guard self.isCompacted else {
            if isEndless("retention.ms") {
                faults.append(fault("retention.ms", "keeps data of removed orders without a limit", 7 * Self.day))
            }
            if isEndless("segment.ms") {
                faults.append(fault("segment.ms", "lets a segment be written to, and so kept, forever", Self.day))
            }
            return faults
        }
        if isEndless("max.compaction.lag.ms") {
            faults.append(
                fault("max.compaction.lag.ms", "keeps data of removed orders without a limit", Self.day))
        }
        if isEndless("delete.retention.ms") {
            faults.append(
                fault("delete.retention.ms", "keeps keys and tokens of removed orders without a limit", Self.day))
        } else if let kept = settings["delete.retention.ms"].flatMap({ Int64($0) }), kept < Self.shortestRestore {
            faults.append(
                fault("delete.retention.ms", "is shorter than a restore, which may bring removed orders back", Self.day)
            )
        }
        return faults
    }

    /// A day, in milliseconds.
    static let day: Int64 = 86_400_000
    /// A time that is no limit, in milliseconds.
    private static let century = 36_525 * Self.day
    /// An hour, in milliseconds: a restore that reads a topic from its beginning must see each tombstone that it meets.
    private static let shortestRestore: Int64 = 3_600_000

    /// Source: Kafka's own tool, "Updating topic configs"
    private func command(_ setting: String) -> String {
        "kafka-configs.sh --bootstrap-server … --alter --entity-type topics --entity-name \(self.name) "
            + "--add-config \(setting)"
    }
}
