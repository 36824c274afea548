import ArgumentParser
import Kafka
import Model
import Operations
import Redis
import Store

/// `waybill-packager rekey`: moves keys to where they belong after a compacted topic got more partitions.
struct RekeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rekey",
        abstract: "Moves the keys of compacted topics after partitions were added.",
        discussion: """
            After partitions are added, new records of a key go to another partition, while Kafka keeps the last old \
            one forever; a later restore of Redis would bring removed orders back. This command republishes each \
            current record to its new partition and writes tombstones to the old one, for waybill.orders, \
            waybill.registrations and waybill.push-pending. No device is notified. Run it beside the services, within \
            delete.retention.ms (a day by default) of the change. Repeating it is safe: records in the right partition \
            are only read.

            Exit codes: 0: done; 2: done, except for keys that cannot be read (see the tally); 1: not done (run it \
            again); 64: it could not start.
            """)

    @Option(help: "Maximum number of keys per second, 1 to 100000.")
    var rate = 2000

    @Flag(help: "Count the misplaced keys and write nothing.")
    var dryRun = false

    func validate() throws {
        guard (1...100_000).contains(self.rate) else {
            throw ValidationError("--rate \(self.rate): must be from 1 to 100000")
        }
    }

    func run() async throws {
        let (_, environment) = try ServiceEnvironment.ofCommand("waybill-packager")
        let tally = try await Self.rekey(environment, rate: self.rate, isDryRun: self.dryRun)
        if tally.unread > 0 { throw ExitCode.failure }
        if tally.left > 0 { throw ExitCode(2) }
    }

    /// Moves all keys of the compacted topics.
    static func rekey(
        _ environment: ServiceEnvironment, rate: Int, isDryRun: Bool, patience: Duration = RegistrationMove.patience
    ) async throws -> RekeyTally {
        let topics = environment.common.topics
        let redis = RedisClient(environment.common.redis, eventLoopGroup: environment.group)
        let reader = try KafkaReader(environment.kafka)
        let cold = ColdOrders(environment)
        let producer = try KafkaProducer(
            environment.producing(within: .seconds(30)),
            topics: [topics.orders, topics.registrations, topics.pushPending])
        let close = {
            await producer.close()
            await reader.close()
            await cold.close()
            await redis.close()
        }
        return try await withCleanup(close) {
            try await Self.checkTimestamps(environment, topics.registrations)
            let view = ViewEpochCache(MaterializedView(redis: redis))
            let counts = PartitionCounts(redis: redis)
            var total = RekeyTally()
            for topic in [topics.orders, topics.registrations, topics.pushPending] {
                let line = ProgressLine(head: "\(topic): ", to: .error)
                let run = RekeyRun(
                    reader: reader, producer: producer, logger: environment.logger, rate: rate,
                    isDryRun: isDryRun
                ) { line.show($0, isLast: $1) }
                let orders = OrderMove(run: run, store: cold.store(redis, view: view), topics: topics)
                let registrations = RegistrationMove(
                    run: run, registrations: Registrations(redis: redis), view: view, topics: topics,
                    patience: patience)
                let (tally, partitions) = try await run.run(topic) { values, partition in
                    switch topic {
                    case topics.orders: (try await orders.move(values, from: partition), nil)
                    case topics.registrations: try await registrations.move(values, from: partition)
                    default: (try await run.move(values, from: partition, of: topic), nil)
                    }
                }
                total = total + tally
                if !isDryRun, tally.unread == 0 { try await counts.record(partitions, of: topic) }
            }
            return total
        }
    }

    /// Checks that records keep their producers' timestamps, by which the ends of registrations are judged.
    private static func checkTimestamps(_ environment: ServiceEnvironment, _ topic: String) async throws {
        let admin = try KafkaAdmin(environment.kafka)
        let settings = try? await admin.settings(of: [topic])[topic]?.get()
        await admin.close()
        guard settings?["message.timestamp.type"] == "LogAppendTime" else { return }
        throw ValidationError(
            "topic \(topic): message.timestamp.type=LogAppendTime would make the ends of moved registrations newer "
                + "than the registrations: set it to CreateTime, run this, and set it back")
    }
}
