import Kafka
import Logging
import Model
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Two installations on one Kafka cluster, which the prefix of their topics tells apart.
@Suite(.server) struct SharedClusterTests {
    /// A log handler that keeps the events of the consumer group.
    private struct Journal: LogHandler {
        private final class Kinds: Sendable { let all = Mutex<[String]>([]) }

        private let kept = Kinds()
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.info
        var kinds: [String] { self.kept.all.withLock { $0 } }
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { self.metadata[key] }
            set { self.metadata[key] = newValue }
        }
        func log(event: LogEvent) {
            guard "\(event.message)" == "Kafka client event", let kind = event.metadata?["kind"] else { return }
            self.kept.all.withLock { $0.append("\(kind)") }
        }
    }

    private static func publish(_ fleet: Fleet, _ topics: Topics, _ order: String) async throws {
        let key = "\(try ChangeLog.key(order))"
        _ = try await fleet.producer.produce(
            KafkaMessage(
                topic: topics.orderChanges, key: Array(key.utf8),
                value: ChangeLog.event("order.replaced", subject: key, id: order, ChangeLog.document()),
                headers: [ChangeLog.contentType]))
    }

    /// Waits until an installation has published this many versions and committed all its changes.
    private static func settled(_ fleet: Fleet, _ topics: Topics, versions: Int64) async throws {
        try await eventually("\(versions) versions on \(topics.orders)", within: .seconds(60)) {
            let published = try await fleet.admin.endOffsets(topics.orders).values.reduce(0, +)
            let group = topics.group(of: Packager.group)
            let lag = try await fleet.admin.lag(group: group, topic: topics.orderChanges).values.reduce(0, +)
            return published == versions && lag == 0
        }
    }

    @Test(.timeLimit(.minutes(2)))
    func aSecondInstallationOnTheClusterCausesNoRebalance() async throws {
        try await Fleet.run { fleet in
            let (mine, other) = (Topics(prefix: "a."), Topics(prefix: "b."))
            for topics in [mine, other] {
                for name in [topics.orderChanges, topics.orders, topics.registrations, topics.deadLetters] {
                    try fleet.broker.create(.init(name, partitions: 2))
                }
            }
            let journal = Journal()
            let host = fleet.server.url.split(separator: "/")[1]
            @Sendable func settings(_ topics: Topics, _ database: Int) -> [String: String] {
                [
                    "WAYBILL_TOPIC_PREFIX": topics.prefix, "WAYBILL_GROUP_INSTANCE": "packager-0",
                    "WAYBILL_REDIS_URL": "redis://\(host)/\(database)",
                ]
            }
            let first = try fleet.member(log: journal, settings(mine, 0))
            try await fleet.working([first]) {
                try await Self.publish(fleet, mine, "1")
                try await Self.settled(fleet, mine, versions: 1)
                let second = try fleet.member(settings(other, 1))
                try await fleet.working([second]) {
                    try await Self.publish(fleet, other, "1")
                    try await Self.settled(fleet, other, versions: 1)
                    try await Self.publish(fleet, mine, "2")
                    try await Self.settled(fleet, mine, versions: 2)
                }
                try await Self.publish(fleet, mine, "3")
                try await Self.settled(fleet, mine, versions: 3)
                #expect(journal.kinds.filter { ["assigned", "revoked", "lost"].contains($0) } == ["assigned"])
            }
        }
    }
}
