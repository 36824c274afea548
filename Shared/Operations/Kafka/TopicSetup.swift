public import Kafka
public import Model

/// The creation of an installation's topics, and the check of those that exist.
///
/// Owner: the caller of the admin. Bounded: by the admin's time limits; one topic at a time is asked for.
public struct TopicSetup {
    /// The state of a topic at the end.
    enum Outcome: Hashable {
        case created(partitions: Int)
        case found(partitions: Int)
    }

    /// The result for all topics.
    public struct Report {
        var topics: [(name: String, outcome: Outcome)] = []
        /// The differences, one line each with its correction.
        var faults: [String] = []
        /// Settings with which a removed order stays without a limit, one line each with its correction.
        var deadlines: [String] = []
        /// Settings that are a risk if other programs are not trusted, one line each with its correction.
        var warnings: [String] = []
        /// The reason why the settings of existing topics could not be checked.
        var unchecked: String?

        /// True if the services can work with every topic, as far as that could be checked.
        public var isWell: Bool { self.faults.isEmpty }
        /// True if removed orders leave every topic within a time that its settings limit.
        public var hasDeadlines: Bool { self.deadlines.isEmpty }

        /// The report for a person, one line for each topic and for each difference.
        public var text: String {
            var lines = self.topics.map { name, outcome in
                switch outcome {
                case .created(let partitions): "\(name): created with \(partitions) partitions"
                case .found(let partitions): "\(name): exists with \(partitions) partitions"
                }
            }
            lines += self.faults + self.deadlines + self.warnings.map { "warning: \($0)" }
            if let unchecked { lines.append("settings of existing topics are not checked: \(unchecked)") }
            return lines.map { "\($0)\n" }.joined()
        }
    }

    let needs: [KafkaTopicNeed]
    let partitions: Int
    let replication: Int

    /// - Parameters:
    ///   - topics: those of the installation; a pattern is no topic, and is left out.
    ///   - partitions: those of a topic that is created.
    ///   - replication: copies of each partition; -1 leaves it to the brokers.
    public init(_ topics: Topics, partitions: Int, replication: Int) {
        self.needs = KafkaTopicNeed.installation(topics)
        self.partitions = partitions
        self.replication = replication
    }

    /// Creates each topic that does not exist, and judges the others.
    ///
    /// - Parameter creates: false to report a missing topic as a fault.
    /// - Throws: `.unsupported` if a topic is missing and the broker cannot create it; `.authorization`.
    public func run(_ admin: KafkaAdmin, creates: Bool = true) async throws(KafkaError) -> Report {
        var report = Report()
        var found: [(need: KafkaTopicNeed, partitions: [KafkaPartitionState])] = []
        var missing: [KafkaTopicNeed] = []
        for need in self.needs {
            do throws(KafkaError) {
                found.append((need, try await admin.partitionStates(need.name)))
            } catch {
                guard error.code == .unknownTopic else { throw error }
                missing.append(need)
            }
        }
        if !creates {
            report.faults = missing.flatMap { $0.faults(.failure(KafkaError(.unknownTopic, "")), settings: nil) }
                .map(\.text)
            missing = []
        }
        try await admin.createTopics(
            missing.map { $0.topic(partitions: self.partitions, replication: self.replication) })
        let settings = try await self.settings(found.map(\.need.name), admin, &report)
        for need in self.needs {
            guard let existing = found.first(where: { $0.need.name == need.name }) else {
                if creates { report.topics.append((need.name, .created(partitions: self.partitions))) }
                continue
            }
            report.topics.append((need.name, .found(partitions: existing.partitions.count)))
            report.faults += need.faults(.success(existing.partitions), settings: settings[need.name]).map(\.text)
            report.faults += need.risks(existing.partitions, settings[need.name] ?? [:])
                .filter { $0.kind != .warning }.map(\.text)
            report.deadlines += need.deadlines(settings[need.name] ?? [:]).map(\.text)
            if !creates { report.warnings += need.compression(settings[need.name] ?? [:]).map(\.text) }
        }
        return report
    }

    /// Returns the settings that the broker reports; the others remain unchecked.
    private func settings(
        _ topics: [String], _ admin: KafkaAdmin, _ report: inout Report
    ) async throws(KafkaError) -> [String: [String: String]] {
        if topics.isEmpty { return [:] }
        var settings: [String: [String: String]] = [:]
        do throws(KafkaError) {
            for (name, result) in try await admin.settings(of: topics) {
                switch result {
                case .success(let values): settings[name] = values
                case .failure(let error): report.unchecked = error.message
                }
            }
        } catch {
            guard error.code == .unsupported || error.code == .authorization else { throw error }
            report.unchecked = error.message
        }
        return settings
    }
}

extension KafkaTopicNeed {
    /// Room for a change or an order of 1 MiB, its key, and the headers that a dead letter adds, in bytes.
    private static let largestRecord = 4 << 20

    /// Returns the topics of an installation, as the one that requires most of each needs it.
    static func installation(_ topics: Topics) -> [KafkaTopicNeed] {
        let changes = topics.orderChangeSources.filter { !Topics.isPattern($0) }
        return changes.map {
            KafkaTopicNeed($0, isWritten: true, isForeign: true, largestBytes: Self.largestRecord)
        } + [
            KafkaTopicNeed(topics.deadLetters, isWritten: true, largestBytes: Self.largestRecord),
            KafkaTopicNeed(topics.orders, isWritten: true, isCompacted: true, largestBytes: Self.largestRecord),
            KafkaTopicNeed(topics.registrations, isWritten: true, isCompacted: true),
            KafkaTopicNeed(topics.pushPending, isWritten: true, isCompacted: true),
        ] + topics.used(.adoption).map { KafkaTopicNeed($0, isWritten: true, isCompacted: true) }
    }

    /// Returns the topic that meets the need.
    ///
    /// From three replicas on, a write waits for two of them: a broker that is lost then loses no record. A removed
    /// order leaves a compacted topic within two days.
    func topic(partitions: Int, replication: Int) -> KafkaTopic {
        var configuration = ["cleanup.policy": self.isCompacted ? "compact" : "delete"]
        if self.isCompacted { configuration["max.compaction.lag.ms"] = String(Self.day) }
        if self.largestBytes > 0 { configuration["max.message.bytes"] = String(self.largestBytes) }
        if replication >= 3 { configuration["min.insync.replicas"] = "2" }
        return KafkaTopic(
            name: self.name, partitions: partitions, replication: replication, configuration: configuration)
    }
}
