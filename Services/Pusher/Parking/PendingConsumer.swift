import Kafka
import Synchronization

/// The member of the consumer group that reads the pending topic: a separate group, so that it can read more slowly.
///
/// It joins once the topic exists, which may be never: until then there are no records to read or to finish.
/// Owner: `PendingPushes`. Thread: any. Bounded: by the consumer that it opens.
final class PendingConsumer: Sendable {
    /// The longest time between two checks for a missing topic. The first checks follow each other sooner: a broker
    /// that is slow to answer holds offsets back as much as a missing topic does.
    static let searchPause = Duration.seconds(30)

    let topic: String
    private let group: String
    private let instance: String?
    private let kafka: KafkaConfiguration
    private let scheduler: PushScheduler
    private let parking: PushParking
    /// Open from `join` to `close`.
    private let opened = Mutex<KafkaConsumer?>(nil)

    /// - Parameters:
    ///   - instance: the name of this member for static membership, which outlives restarts; nil: a dynamic member.
    ///   - scheduler: notified if there is such a topic, and when the group has admitted this process: records written
    ///     to the topic have a reader from then on. Both it and the parking drop the records of revoked partitions.
    init(
        _ kafka: KafkaConfiguration, topic: String, group: String, instance: String?, scheduler: PushScheduler,
        parking: PushParking
    ) {
        self.topic = topic
        self.group = group
        self.instance = instance
        self.kafka = kafka
        self.scheduler = scheduler
        self.parking = parking
    }

    /// Waits until the topic exists, then joins the group.
    ///
    /// - Parameter onSearch: called with the reason why the topic cannot be read, and with nil when it can.
    /// - Throws: `KafkaError`, if the consumer cannot be made; `CancellationError`.
    func join(onSearch: (KafkaError?) -> Void) async throws -> KafkaConsumer {
        try await self.awaitTopic(onSearch)
        var configuration = self.kafka
        let denials: Set<KafkaDenial> = [.group(self.group), .read(topic: self.topic)]
        configuration.onEvent = { [log = self.kafka.onEvent, scheduler, topic] event in
            if event.kind == .assigned { scheduler.suspend(to: topic) }
            if event.kind == .denied, event.denial.map(denials.contains) ?? false {
                scheduler.pendingTopic(isMissing: true)
            }
            log?(event)
        }
        // No device waits for these records: fewer fetches, less read-ahead.
        let slower = ["fetch.wait.max.ms": "100", "queued.max.messages.kbytes": "1024"]
        configuration.properties.merge(slower) { given, _ in given }
        let consumer = try KafkaConsumer(
            configuration, group: self.group, topics: [self.topic], instance: self.instance,
            onLeaving: { [scheduler, parking] in scheduler.drop($0) + parking.drop($0) })
        self.opened.withLock { $0 = consumer }
        return consumer
    }

    /// Marks records of the topic as done; does not block.
    func finished(_ receipts: [KafkaReceipt]) {
        if !receipts.isEmpty { self.opened.withLock { $0 }?.finished(receipts) }
    }

    /// Returns the present bounds of each partition of the topic.
    ///
    /// - Throws: `KafkaError`, within 10 s if no broker answers.
    func bounds() async throws -> [OffsetRange] {
        let reader = try KafkaReader(self.kafka)
        let result: Result<[OffsetRange], any Error>
        do { result = .success(try await reader.bounds(of: self.topic)) } catch { result = .failure(error) }
        await reader.close()
        return try result.get()
    }

    /// Commits and leaves the group.
    func close() async {
        guard let consumer = self.opened.withLock({ $0 }) else { return }
        try? await consumer.commit()
        await consumer.close()
        self.opened.withLock { $0 = nil }
    }

    private func awaitTopic(_ onSearch: (KafkaError?) -> Void) async throws {
        var pause = Duration.seconds(1)
        while true {
            do {
                _ = try await self.bounds()
                self.scheduler.pendingTopic(isMissing: false)
                return onSearch(nil)
            } catch let error as KafkaError {
                // A broker that does not answer says nothing about the topic.
                if [.unknownTopic, .authorization].contains(error.code) {
                    self.scheduler.pendingTopic(isMissing: true)
                }
                onSearch(error)
            }
            try await Task.sleep(for: pause)
            pause = min(pause * 2, Self.searchPause)
        }
    }
}
