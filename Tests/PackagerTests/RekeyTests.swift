import Brands
import Kafka
import Logging
import Model
import NIOPosix
import Operations
import Redis
import Store
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Topics that grew from four to eight partitions, as Kafka leaves them after compaction: the last value of each key in
/// its old partition, and no tombstone for keys removed since.
@Suite(.server, .timeLimit(.minutes(2))) struct RekeyTests {
    private static let (before, now) = (4, 8)
    private static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    /// A broker with the compacted topics and their records.
    private struct Grown {
        let broker: KafkaBroker
        let topics: Topics
        let environment: ServiceEnvironment

        init(_ fixture: PackagerFixture) throws {
            self.topics = fixture.topics
            self.broker = try KafkaBroker(
                topics: [fixture.topics.orders, fixture.topics.registrations, fixture.topics.pushPending].map {
                    .init($0, partitions: RekeyTests.now)
                })
            let settings = try Settings(environment: [
                "WAYBILL_KAFKA_BOOTSTRAP": self.broker.bootstrap, "WAYBILL_REDIS_URL": fixture.server.url,
            ])
            self.environment = ServiceEnvironment(
                common: try CommonSettings(settings), group: .singleton, metrics: MetricsRegistry(),
                readiness: Readiness(conditions: []), logger: RekeyTests.logger)
        }

        func put(_ topic: String, _ records: [(key: [UInt8], value: [UInt8])], partitions: Int) async throws {
            let producer = try KafkaProducer(KafkaConfiguration(bootstrap: self.broker.bootstrap))
            let messages = records.map {
                KafkaMessage(
                    topic: topic, partition: KafkaPartitioner.partition(of: $0.key, count: partitions), key: $0.key,
                    value: $0.value)
            }
            for outcome in await producer.produce(messages) { _ = try outcome.get() }
            await producer.close()
        }

        /// Returns all records of a topic, partition by partition.
        func read(_ topic: String) async throws -> [[KafkaRecord]] {
            let reader = try KafkaReader(KafkaConfiguration(bootstrap: self.broker.bootstrap))
            var partitions: [[KafkaRecord]] = []
            for bounds in try await reader.bounds(of: topic) {
                var records: [KafkaRecord] = []
                try await reader.read(
                    topic, partition: bounds.partition, from: bounds.first, to: bounds.end, records: 100,
                    bytes: 1 << 20
                ) { records += $0 }
                partitions.append(records)
            }
            await reader.close()
            return partitions
        }

        func rekey(isDryRun: Bool = false) async throws -> RekeyTally {
            try await RekeyCommand.rekey(
                self.environment, rate: 100_000, isDryRun: isDryRun, patience: .milliseconds(10))
        }
    }

    /// Loses Redis and restores from the partitions in turn, each record by itself.
    private func restore(_ fixture: PackagerFixture, _ partitions: [[KafkaRecord]]) async throws {
        _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))
        for record in partitions.joined() { try await fixture.restorer.restore([record]) }
    }

    /// Returns the number of each order, nil for an order that does not exist.
    private func numbers(_ fixture: PackagerFixture, _ names: [String]) async throws -> [String?] {
        var numbers: [String?] = []
        for name in names {
            let state = try await fixture.state(name)
            numbers.append(state?.isRemoved ?? true ? nil : state?.document.members["orderNumber"]?.string)
        }
        return numbers
    }

    @Test func removedOrdersStayRemovedAndOthersAreRestored() async throws {
        try await PackagerFixture.run { fixture in
            try await fixture.redis.completeView()
            let grown = try Grown(fixture)
            let processor = try fixture.processor()
            var log = ChangeLog()
            let names = (0..<30).map { "o\($0)" }
            try await processor.process(names.map { log.change("order.replaced", $0, ChangeLog.document("old")) })
            try await processor.process(names[..<10].map { log.change("order.patched", $0, ["orderNumber": "new"]) })
            try await processor.process(names[20...].map { log.change("order.removed", $0, nil) })
            // Of some removals even the trace is gone.
            for name in names[25...] {
                let key = "waybill:1:order:{\(try ChangeLog.key(name))}"
                _ = try await fixture.redis.send(RedisCommand("DEL", .string(key)))
            }
            let values = try await fixture.read(fixture.topics.orders, 50).compactMap { record in
                record.value.map { (key: record.key ?? [], value: $0) }
            }
            try await grown.put(fixture.topics.orders, Array(values[..<30]), partitions: Self.before)
            try await grown.put(fixture.topics.orders, Array(values[30...]), partitions: Self.now)
            let wanted: [String?] =
                Array(repeating: "new", count: 10) + Array(repeating: "old", count: 10)
                + Array(repeating: nil, count: 10)
            let moving = values[..<30].count {
                KafkaPartitioner.partition(of: $0.key, count: Self.now) >= Int32(Self.before)
            }
            try #require(moving > 5)

            #expect(try await grown.rekey(isDryRun: true).moved == moving)
            let tally = try await grown.rekey()
            #expect(tally.moved + tally.ended == moving)
            #expect(tally.left == 0)
            #expect(try await self.numbers(fixture, names) == wanted, "to the gateway nothing changed")
            #expect(try await PartitionCounts(redis: fixture.redis).all()[fixture.topics.orders] == Self.now)
            let again = try await grown.rekey()
            #expect(again.moved == 0)
            #expect(again.ended == 0)
            let partitions = try await grown.read(fixture.topics.orders)
            for record in partitions.joined() where record.value == nil {
                #expect(record.header(RecordHeader.silent.rawValue) == "1", "nobody is pushed")
            }
            for order in [partitions, Array(partitions.reversed())] {
                try await self.restore(fixture, order)
                let standing = try await self.numbers(fixture, names)
                // An order whose old partition is also its new one is as it was before the growth.
                for (index, name) in names.enumerated() where index < 20 || self.moves(name) {
                    #expect(standing[index] == wanted[index], "\(name)")
                }
            }
            grown.broker.close()
        }
    }

    /// The parts of several sources are read with the version that they were written with.
    @Test func sourceContributionsMoveWithTheirOrder() async throws {
        try await PackagerFixture.run { fixture in
            try await fixture.redis.completeView()
            let grown = try Grown(fixture)
            let processor = try fixture.processor()
            var log = ChangeLog()
            let name = try #require((0..<50).map { "o\($0)" }.first { self.moves($0) })
            let carrier: JSON = ["fulfillments": [["fulfillmentIdentifier": "f1", "fulfillmentType": "shipping"]]]
            let changes = [
                log.change("order.merged", name, ChangeLog.document()),
                log.change("order.merged", name, carrier, source: "/carrier"),
            ]
            try await processor.process(changes)
            let record = try #require(try await fixture.read(fixture.topics.orders, 1).last)
            try await grown.put(
                fixture.topics.orders, [(record.key ?? [], record.value ?? [])], partitions: Self.before)
            let before = try #require(try await fixture.stored(name))
            #expect(before.isPublished)
            #expect(before.state.contributions?.isEmpty == false)
            #expect(try await grown.rekey().moved == 1)
            let wanted = before.state
            let after = try #require(try await fixture.stored(name))
            #expect(after.state == wanted)
            #expect(after.isPublished)
            #expect(after.unpublished.isEmpty)
            #expect(after.isPackaged, "nothing but the place of its record is written")
            try await processor.process(changes)
            #expect(try await fixture.count(fixture.topics.orders) == 1, "it counts as published")
            let partitions = try await grown.read(fixture.topics.orders)
            for order in [partitions, Array(partitions.reversed())] {
                try await self.restore(fixture, order)
                #expect(try await fixture.state(name) == wanted)
            }
            grown.broker.close()
        }
    }

    /// Their records move, and Redis gets the new places alone.
    @Test func coldOrdersStayColdAndCanBeReadFromTheirNewPartitions() async throws {
        try await PackagerFixture.run { fixture in
            try await fixture.redis.completeView()
            let grown = try Grown(fixture)
            let processor = try fixture.processor()
            var log = ChangeLog()
            let names = (0..<30).map { "o\($0)" }
            let ended = ChangeLog.document(extra: [("status", "completed")])
            try await processor.process(names.map { log.change("order.replaced", $0, ended) })
            let values = try await fixture.read(fixture.topics.orders, 30).map {
                (key: $0.key ?? [], value: $0.value ?? [])
            }
            try await grown.put(fixture.topics.orders, values, partitions: Self.before)
            // As cold orders with the places of these records.
            _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))
            var restorer = fixture.restorer
            restorer.cooling = Cooling(after: .seconds(86_400))
            restorer.now = { ChangeLog.noon + 30 * 86_400 }
            for records in try await grown.read(fixture.topics.orders) { try await restorer.restore(records) }
            try await fixture.redis.completeView()
            let cold = ColdOrders(grown.environment)
            let store = cold.store(fixture.redis)
            let keys = try names.map(ChangeLog.key)
            func states() async throws -> [OrderState] {
                try await store.orders(keys).compactMap { result in
                    let order = try result.get()
                    #expect(order?.isCold == true)
                    #expect(order?.isPublished == true)
                    return order?.state
                }
            }
            let before = try await states()
            #expect(before.count == 30)
            let moved = try await grown.rekey().moved
            #expect(moved > 5)
            #expect(try await states() == before)
            for name in names {
                let key = RedisArgument.string("waybill:1:order:{\(try ChangeLog.key(name))}")
                let place = try await fixture.redis.send(RedisCommand("HGET", key, "record")).text ?? ""
                let partition = KafkaPartitioner.partition(
                    of: Array("\(try ChangeLog.key(name))".utf8), count: Self.now)
                #expect(place.hasPrefix("\(partition):"), "\(name)")
            }
            // One that is removed after its move stays removed, in whichever sequence the partitions are read.
            let name = try #require(names.first { self.moves($0) })
            try await fixture.processor(store: store).process([log.change("order.removed", name, nil)])
            let tombstone = try #require(try await fixture.read(fixture.topics.orders, 31).last)
            var partitions = try await grown.read(fixture.topics.orders)
            partitions.append([tombstone])
            for order in [partitions, Array(partitions.reversed())] {
                try await self.restore(fixture, order)
                #expect(try await fixture.state(name)?.isRemoved == true)
                #expect(try await self.numbers(fixture, names).count { $0 != nil } == 29)
            }
            await cold.close()
            grown.broker.close()
        }
    }

    private func moves(_ name: String) -> Bool {
        guard let key = try? ChangeLog.key(name) else { return false }
        return KafkaPartitioner.partition(of: Array(key.description.utf8), count: Self.now) >= Int32(Self.before)
    }

    @Test func addedPartitionsAreReportedUntilTheirKeysAreMoved() async throws {
        try await PackagerFixture.run { fixture in
            try await fixture.redis.completeView()
            let grown = try Grown(fixture)
            let counts = PartitionCounts(redis: fixture.redis)
            try await counts.record(Self.before, of: grown.topics.orders)
            let watch = PartitionWatch(
                topics: [grown.topics.orders, grown.topics.registrations], counts: counts,
                environment: grown.environment, interval: .milliseconds(20))
            func added(_ topic: String) -> String? {
                let head = "waybill_topic_partitions_added{topic=\"\(topic)\"} "
                return grown.environment.metrics.text.split(separator: "\n").first { $0.hasPrefix(head) }
                    .map { String($0.dropFirst(head.count)) }
            }
            try await withThrowingTaskGroup { group in
                group.addTask { try await watch.run() }
                try await eventually("noticed") { added(grown.topics.orders) == "4.0" }
                try await eventually("known from now on") { added(grown.topics.registrations) == "0.0" }
                _ = try await grown.rekey()
                try await eventually("moved") { added(grown.topics.orders) == "0.0" }
                group.cancelAll()
            }
            grown.broker.close()
        }
    }

    @Test func pendingPushesMoveUnchanged() async throws {
        try await PackagerFixture.run { fixture in
            try await fixture.redis.completeView()
            let grown = try Grown(fixture)
            let topic = fixture.topics.pushPending
            let records = (0..<30).map { (key: Array("order.com.example.a/o\($0)".utf8), value: [UInt8($0)]) }
            try await grown.put(topic, records, partitions: Self.before)
            let moving = records.count {
                KafkaPartitioner.partition(of: $0.key, count: Self.now) >= Int32(Self.before)
            }
            try #require(moving > 5)
            #expect(try await grown.rekey() == RekeyTally(read: 30, moved: moving))
            // As Kafka compacts it: the last record of each key of each partition.
            for (partition, found) in try await grown.read(topic).enumerated() {
                var last: [[UInt8]: [UInt8]] = [:]
                for record in found { last[record.key ?? []] = record.value }
                let wanted = records.filter {
                    KafkaPartitioner.partition(of: $0.key, count: Self.now) == Int32(partition)
                }
                #expect(last == Dictionary(uniqueKeysWithValues: wanted), "partition \(partition)")
            }
            #expect(try await grown.rekey().moved == 0)
            grown.broker.close()
        }
    }

    /// The end of a partition waits for gateways: ending many partitions in turn would take minutes.
    @Test func allPartitionsAreFinishedConcurrently() async throws {
        try await PackagerFixture.run { fixture in
            let grown = try Grown(fixture)
            let topic = fixture.topics.registrations
            let records = (0..<40).map { (key: Array("key-\($0)".utf8), value: [UInt8($0)]) }
            try await grown.put(topic, records, partitions: Self.before)
            let reader = try KafkaReader(grown.environment.kafka)
            let producer = try KafkaProducer(grown.environment.kafka)
            let run = RekeyRun(reader: reader, producer: producer, logger: Self.logger, rate: 100_000) { _, _ in }
            let moved = Mutex<Set<Int32>>([])
            let ended = Mutex<Set<Int32>>([])
            let (tally, partitions) = try await run.run(topic) { values, partition in
                moved.withLock { _ = $0.insert(partition) }
                return (
                    RekeyTally(moved: values.count),
                    {
                        try await eventually("all are moved") { moved.withLock(\.count) == Self.before }
                        ended.withLock { _ = $0.insert(partition) }
                    }
                )
            }
            #expect(ended.withLock { $0 } == Set(0..<Int32(Self.before)))
            #expect(tally.moved > 10)
            #expect(partitions == Self.now)
            await producer.close()
            await reader.close()
            grown.broker.close()
        }
    }

    @Test func endedRegistrationsStayEndedAndOthersAreRestoredAfterRekeying() async throws {
        try await PackagerFixture.run { fixture in
            try await fixture.redis.completeView()
            let grown = try Grown(fixture)
            let registrations = Registrations(redis: fixture.redis)
            let keys = try (0..<40).map {
                RegistrationKey(device: try DeviceIdentifier("device-\($0)"), order: try ChangeLog.key("o\($0 % 4)"))
            }
            let old = try keys.indices.map {
                RegistrationRecord(
                    pushToken: try PushToken("aa\($0 + 10)"), registeredEpochMilliseconds: ChangeLog.noon * 1000)
            }
            var new = old
            // Some registered again since, with another token; half of all ended since.
            for index in 0..<10 {
                new[index] = RegistrationRecord(
                    pushToken: try PushToken("bb\(index + 10)"),
                    registeredEpochMilliseconds: (ChangeLog.noon + (index < 5 ? 20 : 3600)) * 1000)
            }
            for index in 0..<20 { try await registrations.register(keys[index], new[index]) }
            func bytes(_ key: RegistrationKey) -> [UInt8] { Array(key.text.utf8) }
            let topic = fixture.topics.registrations
            try await grown.put(topic, zip(keys, old).map { (bytes($0), $1.encoded) }, partitions: Self.before)
            try await grown.put(
                topic, zip(keys[..<10], new[..<10]).map { (bytes($0), $1.encoded) }, partitions: Self.now)
            let moving = keys.indices.filter {
                KafkaPartitioner.partition(of: bytes(keys[$0]), count: Self.now) >= Int32(Self.before)
            }
            let tally = try await grown.rekey()
            #expect(tally.moved + tally.ended == moving.count)
            #expect(tally.left == 0)
            func tokens() async throws -> [PushToken?] {
                try await Registrations(redis: fixture.redis).registrations(keys).map { $0?.pushToken }
            }
            let wanted = keys.indices.map { $0 < 20 ? new[$0].pushToken : nil }
            #expect(try await tokens() == wanted, "to the pusher nothing changed")
            let partitions = try await grown.read(topic)
            let restorer = RegistrationRestorer(
                registrations: Registrations(redis: fixture.redis), metrics: RestoreMetrics(factory: fixture.metrics),
                logger: Self.logger)
            for order in [partitions, Array(partitions.reversed())] {
                _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))
                for record in order.joined() { try await restorer.restore([record]) }
                let standing = try await tokens()
                for index in moving { #expect(standing[index] == wanted[index], "\(keys[index].text)") }
            }
            grown.broker.close()
        }
    }
}
