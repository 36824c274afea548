import Foundation
import Kafka

extension KafkaBroker {
    /// Returns the cluster named by `WAYBILL_TEST_KAFKA` (host:port), or a new broker, with topics for this test only.
    ///
    /// Each topic gets a unique name, found in `topics` in the order of the request; tests use these names and `group`.
    /// On a named cluster the topics remain and become empty after an hour. A broker without CreateTopics, such as
    /// `waybill-dev kafka`, creates them with its own number of partitions (4), so tests use `topics[n].partitions`.
    /// - Throws: `KafkaError` if the named cluster does not answer, `Failure` if topics do not appear.
    public static func shared(topics wishes: [Topic] = []) async throws -> KafkaBroker {
        try TestServers.use("Kafka broker")
        let topics = wishes.map { Topic(uniqueName($0.name), partitions: $0.partitions) }
        guard let bootstrap = ProcessInfo.processInfo.environment["WAYBILL_TEST_KAFKA"], !bootstrap.isEmpty else {
            return try KafkaBroker(topics: topics)
        }
        let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: bootstrap))
        do {
            let there = try await Self.make(topics, admin)
            await admin.close()
            return KafkaBroker(bootstrap: bootstrap, topics: there)
        } catch {
            await admin.close()
            throw error
        }
    }

    private static func make(_ topics: [Topic], _ admin: KafkaAdmin) async throws -> [Topic] {
        var creates = true
        do throws(KafkaError) {
            try await admin.createTopics(
                topics.map {
                    KafkaTopic(name: $0.name, partitions: $0.partitions, configuration: ["retention.ms": "3600000"])
                })
        } catch {
            guard error.code == .unsupported else { throw error }
            creates = false
        }
        var there: [Topic] = []
        for topic in topics {
            let partitions = try await Self.partitions(of: topic.name, admin)
            guard !creates || partitions == topic.partitions else {
                throw Failure(description: "\(topic.name) has \(partitions) partitions instead of \(topic.partitions)")
            }
            there.append(Topic(topic.name, partitions: partitions))
        }
        return there
    }

    /// Returns the number of partitions. Waits up to 20 s, since a new topic may be unknown for a moment.
    private static func partitions(of topic: String, _ admin: KafkaAdmin) async throws -> Int {
        let deadline = ContinuousClock.now + .seconds(20)
        while true {
            do throws(KafkaError) {
                let count = try await admin.partitions(topic)
                if count > 0 { return count }
            } catch {
                guard error.code == .unknownTopic else { throw error }
            }
            guard deadline > .now else { throw Failure(description: "\(topic) is not there after 20 s") }
            try await Task.sleep(for: .milliseconds(50))
        }
    }
}

/// Returns a name that no other test, run or machine uses, for topics, groups and keys on shared servers.
public func uniqueName(_ label: String) -> String { "waybill-test-\(label)-\(UUID().uuidString.lowercased())" }
