import Kafka
import Logging
import Model
import NIOPosix
import Operations
import Redis
import ServiceLifecycle
import Store
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Packager

/// The role as it is built for production, on a broker.
@Suite(.server) struct IngestTests {
    private static let program = """
        function map(e)
            if e.skip then return end
            return {{order = e.order, data = {orderNumber = e.number}}}
        end
        """

    @Test(.timeLimit(.minutes(2)))
    func recordsBecomeChangesInSequenceAndAreCommitted() async throws {
        let fixture = try SourceFixture()
        try fixture.write("orders", topics: ["shop.orders"], Self.program)
        try fixture.write("bad", topics: ["^shop[.]bad"], "function map(e) while true do end end")
        try await Self.run(fixture, topics: ["shop.orders", "shop.bad"]) { role in
            let messages = (0..<300).map { number in
                let order = number % 20
                let skip = number % 7 == 0
                return KafkaMessage(
                    topic: "shop.orders", key: number % 3 == 0 ? nil : Array("o\(order)".utf8),
                    value: Array(#"{"order": "o\#(order)", "number": "\#(number)", "skip": \#(skip)}"#.utf8))
            }
            try await role.produce(messages)
            let bad = Array("{}".utf8)
            try await role.produce([KafkaMessage(topic: "shop.bad", key: Array("k".utf8), value: bad)])
            try await role.untilNothingIsLeft(["shop.orders", "shop.bad"])

            let mapped = messages.count - messages.indices.count { $0 % 7 == 0 }
            let changes = try await role.broker.records(mapped, of: role.topics.orderChanges)
            #expect(changes.count == mapped)
            #expect(try await role.count(role.topics.orderChanges) == Int64(mapped))
            // Those of one key are in the sequence of their topic.
            var last: [String: Int] = [:]
            for change in changes {
                let event = try #require(try JSON(parsing: change.value ?? []).object)
                let number = try #require(Int(event["data"]?.object?["orderNumber"]?.string ?? ""))
                guard number % 3 != 0 else { continue }
                #expect(number > last[change.keyText, default: -1])
                last[change.keyText] = number
            }
            let letters = try await role.broker.records(1, of: role.topics.deadLetters)
            #expect(letters[0].header(RecordHeader.error.rawValue) == "map-limit")
            #expect(letters[0].header(RecordHeader.origin.rawValue) == "shop.bad/0/0")
            #expect(letters[0].value == bad)
            #expect(letters[0].keyText == "k")
            #expect(role.metrics.contains(#"waybill_ingest_records_total{source="bad",outcome="refused"} 1"#))
            let all = #"waybill_ingest_records_total{source="orders",outcome="mapped"} \#(mapped)"#
            #expect(role.metrics.contains(all))
        }
    }

    @Test(.timeLimit(.minutes(2)))
    func aMendedProgramAndAReplayLeaveNoOpenDeadLetter() async throws {
        let fixture = try SourceFixture()
        try fixture.write("orders", topics: ["shop.orders"], "function map(e) return e.missing.member end")
        try await Self.run(fixture, topics: ["shop.orders"]) { role in
            let value = Array(#"{"order": "o1", "number": "1"}"#.utf8)
            try await role.produce([
                KafkaMessage(topic: "shop.orders", key: nil, value: value, timestampMilliseconds: 1_767_225_600_123)
            ])
            let letters = try await role.broker.records(1, of: role.topics.deadLetters)
            let letter = try #require(
                { if case .letter(let letter) = DeadLetterRecord.read(letters[0]) { letter } else { nil } }())
            let record = try #require(letter.sourceRecord)
            #expect(record.topic == "shop.orders")
            #expect(record.timestampMilliseconds == 1_767_225_600_123)
            let table = SourceTable([try fixture.load("orders")])
            let mapper = Mapper(SourceFixture.sandbox, count: 1)
            let maps = SourceMapper(mapper: mapper, topic: role.topics.orderChanges)
            for table in [table, nil] {
                await #expect(throws: ChangeFault.self) {
                    try await maps.replay(record, table, schemas: mapper).get()
                }
            }
            try fixture.write("orders", topics: ["shop.orders"], Self.program)
            let mended = SourceTable([try fixture.load("orders")])
            let messages = try await maps.replay(record, mended, schemas: mapper).get()
            await mapper.close()
            #expect(messages.map(\.topic) == [role.topics.orderChanges])
            let event = try #require(try JSON(parsing: messages[0].value ?? []).object)
            #expect(event["time"] == "2026-01-01T00:00:00.123Z")
            #expect(event["id"]?.string?.hasSuffix("shop.orders/\(record.partition)/0/1") == true)
        }
    }

    /// A carrier's event comes before its order, one is of a stranger's parcel, and one of a view that is not complete.
    @Test(.timeLimit(.minutes(2)))
    func aRecordWaitsForTheOrderOfItsParcel() async throws {
        let fixture = try SourceFixture()
        let program = """
            function map(e)
                local order, fulfillment = waybill.alias(e.carrier, e.number)
                return {{order = order, type = "fulfillment.updated",
                         data = {fulfillmentIdentifier = fulfillment, status = "delivered"}}}
            end
            """
        try fixture.write("carrier", topics: ["carrier"], program)
        let server = try await PackagerFixture.redis()
        let redis = RedisClient(
            try RedisConfiguration(url: server.url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        try await Self.run(
            fixture, topics: ["carrier"],
            ["WAYBILL_REDIS_URL": server.url, "WAYBILL_UNKNOWN_ORDER_SECONDS": "600"]
        ) { role in
            func event(_ number: String) -> KafkaMessage {
                KafkaMessage(
                    topic: "carrier", key: Array(number.utf8),
                    value: Array(#"{"carrier": "UPS", "number": "\#(number)"}"#.utf8))
            }
            try await role.produce([event("1Z 1")])
            try await eventually("nothing is decided by a view that is not complete") {
                role.environment.metrics.counter("waybill_batch_retries_total") > 0
            }
            try await redis.completeView()
            try await eventually("it waits", within: .seconds(30)) {
                role.metrics.contains("waybill_ingest_unknown_aliases_waiting 1")
            }
            let order = try Self.order(number: "1z1")
            let outcomes = try await OrderStore(redis: redis).write([
                OrderStore.Write(state: order, content: .version(Self.package))
            ])
            #expect(outcomes == [.written])
            let changes = try await role.broker.records(1, of: role.topics.orderChanges)
            #expect(changes[0].keyText == order.key.description)
            let event = try #require(try JSON(parsing: changes[0].value ?? []).object)
            #expect(event["data"] == ["fulfillmentIdentifier": "f1", "status": "delivered"])
            try await role.untilNothingIsLeft(["carrier"])
            #expect(try await role.count(role.topics.deadLetters) == 0)
            #expect(role.metrics.contains("waybill_ingest_unknown_aliases_waiting 0"))
        }
        await redis.close()
        await server.stop()
    }

    @Test(.timeLimit(.minutes(2)))
    func aStrangersParcelBecomesADeadLetterThatIsMappedAgain() async throws {
        let fixture = try SourceFixture()
        let program = "function map(e) return {{order = waybill.alias('UPS', e.number), data = {}}} end"
        try fixture.write("carrier", topics: ["carrier"], program)
        let server = try await PackagerFixture.redis()
        let redis = RedisClient(
            try RedisConfiguration(url: server.url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        try await redis.completeView()
        try await Self.run(
            fixture, topics: ["carrier"], ["WAYBILL_REDIS_URL": server.url, "WAYBILL_UNKNOWN_ORDER_SECONDS": "1"]
        ) { role in
            // Of one key: both wait for the time of the first.
            try await role.produce(
                ["1", "2"].map {
                    KafkaMessage(topic: "carrier", key: Array("k".utf8), value: Array(#"{"number": "\#($0)"}"#.utf8))
                })
            let letters = try await role.broker.records(2, of: role.topics.deadLetters)
            for (letter, number) in zip(letters, ["1", "2"]) {
                #expect(letter.header(RecordHeader.error.rawValue) == "map-unknown-alias")
                #expect(
                    letter.header(RecordHeader.reason.rawValue)
                        == "source carrier: map.lua:1: alias: no order has the parcel ups \(number)")
            }
            try await role.untilNothingIsLeft(["carrier"])
            let refused = #"waybill_ingest_records_total{source="carrier",outcome="refused"} 2"#
            #expect(role.metrics.contains(refused))
            let letter = try #require(
                { if case .letter(let letter) = DeadLetterRecord.read(letters[0]) { letter } else { nil } }())
            let record = try #require(letter.sourceRecord)
            let table = SourceTable([try fixture.load("carrier")])
            let mapper = Mapper(SourceFixture.sandbox, count: 1)
            func replay() async -> Result<[KafkaMessage], ChangeFault> {
                let parcels = OrderStore(redis: redis).parcels
                return await SourceMapper(mapper: mapper, topic: role.topics.orderChanges, parcels: parcels)
                    .replay(record, table, schemas: mapper)
            }
            let early = await replay()
            #expect(throws: ChangeFault.self) { try early.get() }
            _ = try await OrderStore(redis: redis).write([
                OrderStore.Write(
                    state: try Self.order(number: "1"), content: .version(Self.package))
            ])
            let late = try await replay().get()
            #expect(late.map { $0.key.map { String(decoding: $0, as: UTF8.self) } } == ["order.com.example.shop/7"])
            await mapper.close()
        }
        await redis.close()
        await server.stop()
    }

    /// Its registry takes longer for an answer than the test for all records of the other source.
    @Test(.timeLimit(.minutes(2)))
    func aSlowRegistryHoldsOnlyItsOwnSource() async throws {
        let server = try await PictureServer.start(hosts: ["localhost"])
        let schema = JSON.string(#"{"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]}"#)
        var slow = PictureServer.Answer(Array(#"{"schema": \#(schema.text)}"#.utf8))
        let quick = slow
        slow.delay = 60
        try server.answer("/schemas/ids/7", slow)
        let fixture = try SourceFixture()
        let registry = """
            "registry": {"url": "https://localhost:\(server.port)", "addresses": ["127.0.0.1", "::1"],
                         "roots": "roots.pem"}
            """
        try fixture.put("slow/roots.pem", String(decoding: server.rootPEM, as: UTF8.self))
        let program = "function map(e) return {{order = e.id, data = {}}} end"
        try fixture.write("slow", topics: ["slow"], format: "avro", extra: registry, program)
        try fixture.write("plain", topics: ["plain"], program)
        try await Self.run(fixture, topics: ["slow", "plain"]) { role in
            // Wherever they are in a batch, they are held by none of the records of the slow source.
            for round in 0..<5 {
                try await role.produce(
                    [KafkaMessage(topic: "slow", key: [UInt8(round)], value: [0, 0, 0, 0, 7, 2, UInt8(ascii: "s")])]
                        + (0..<20).map { number in
                            KafkaMessage(
                                topic: "plain", key: Array("k\(number)".utf8), value: Array(#"{"id": "p"}"#.utf8))
                        })
                try await eventually("the other source", within: .seconds(30)) {
                    try await role.admin.lag(group: Ingest.group, topic: "plain").values.reduce(0, +) == 0
                }
            }
            #expect(try await role.count(role.topics.orderChanges) == 100)
            try await eventually("it was asked") { server.requests.count > 0 }
            try server.answer("/schemas/ids/7", quick)
            try await role.untilNothingIsLeft(["slow", "plain"])
            #expect(try await role.count(role.topics.orderChanges) == 105)
            #expect(try await role.count(role.topics.deadLetters) == 0)
        }
        await server.stop()
    }

    /// API key 11 is JoinGroup, and 30 the refusal of a group.
    @Test(.timeLimit(.minutes(2)))
    func aRefusedGroupIsNamedAndJoinedOnceItIsGranted() async throws {
        let fixture = try SourceFixture()
        try fixture.write("orders", topics: ["shop.orders"], Self.program)
        let (journal, broker) = (LogJournal(), try Self.broker(["shop.orders"]))
        try broker.fail(apiKey: 11, with: Array(repeating: 30, count: 1000))
        try await Self.run(fixture, topics: ["shop.orders"], journal: journal, broker: broker) { role in
            try await eventually("told", within: .seconds(30)) {
                role.environment.readiness.reasons.contains { $0.contains("grant Read on group waybill-ingest") }
            }
            let lines = journal.lines.filter { $0.metadata["action"] == "grant Read on group waybill-ingest" }
            #expect(lines.map(\.level) == [.error])
            let value = Array(#"{"order": "1", "number": "1"}"#.utf8)
            try await role.produce([KafkaMessage(topic: "shop.orders", key: nil, value: value)])
            try role.broker.recover(apiKey: 11)
            try await role.untilNothingIsLeft(["shop.orders"])
            #expect(role.environment.readiness.reasons.isEmpty)
            #expect(try await role.count(role.topics.orderChanges) == 1)
        }
    }

    /// API key 0 is Produce, and 7 a write that was not acknowledged in time.
    @Test(.timeLimit(.minutes(2)))
    func changesWithoutAcknowledgementAreNotCommittedAndPublishedAgain() async throws {
        let fixture = try SourceFixture()
        try fixture.write("orders", topics: ["shop.orders"], Self.program)
        let messages = (0..<60).map { number in
            KafkaMessage(
                topic: "shop.orders", key: Array("k\(number % 12)".utf8),
                value: Array(#"{"order": "o\#(number % 6)", "number": "\#(number)"}"#.utf8))
        }
        let broker = try Self.broker(["shop.orders"])
        try await Self.produce(messages, broker)
        try broker.fail(apiKey: 0, with: Array(repeating: 7, count: 10_000))
        try await Self.run(
            fixture, topics: ["shop.orders"], properties: ["delivery.timeout.ms": "1000"], broker: broker
        ) { role in
            try await eventually("they are tried again", within: .seconds(60)) {
                role.environment.metrics.counter("waybill_batch_retries_total") > 0
            }
            #expect(try await role.count(role.topics.orderChanges) == 0)
            let lag = try await role.admin.lag(group: Ingest.group, topic: "shop.orders")
            #expect(lag.values.reduce(0, +) == 60)
            try role.broker.recover(apiKey: 0)
            try await role.untilNothingIsLeft(["shop.orders"])
            let changes = try await role.broker.records(60, of: role.topics.orderChanges)
            let numbers = try changes.map { change in
                try JSON(parsing: change.value ?? []).object?["data"]?.object?["orderNumber"]?.string ?? ""
            }
            #expect(Set(numbers) == Set((0..<60).map(String.init)))
            #expect(try await role.count(role.topics.deadLetters) == 0)
        }
    }

    /// The events of an order's parcels have keys of their own.
    @Test(.timeLimit(.minutes(1)))
    func aBatchWaitsForAnAcknowledgementOfAnOrderOnce() async throws {
        let broker = try KafkaBroker(topics: [.init(Topics().orderChanges, partitions: 1)])
        let waits = Count()
        var kafka = KafkaConfiguration(
            bootstrap: broker.bootstrap,
            properties: ["delivery.timeout.ms": "1000", "reconnect.backoff.max.ms": "100"])
        kafka.onAnswer = { operation, _ in if operation == "produce" { waits.value.withLock { $0 += 1 } } }
        try broker.setDown()
        let program = "function map(e) return {{order = '7', data = {orderNumber = 'n'}}} end"
        try await Self.withProcessor(program, kafka: kafka) { processor in
            var works = (0..<20).map { Self.work("slow/\($0)", [Int64($0)]) }
            let outcomes = await processor.process(works)
            #expect(zip(works, outcomes).allSatisfy { $0.finished(by: $1).isEmpty && !$1.isWaiting && !$1.isPart })
            #expect(waits.value.withLock { $0 } == 1)
            try broker.setUp()
            try await eventually("all are published", within: .seconds(30)) {
                works = zip(works, await processor.process(works)).filter { $1 != .done }.map(\.0)
                return works.isEmpty
            }
        }
        #expect(try await broker.records(20, of: Topics().orderChanges).count == 20)
        broker.close()
    }

    /// All tasks share one thread here, which every other source needs as well.
    @Test(.timeLimit(.minutes(1)))
    func aSlowProgramLeavesTheThreadsToOthers() async throws {
        try await Self.withSlowProgram(longest: .seconds(30)) { processor in
            let works = (0..<40).map { Self.work("slow/\($0)", [Int64($0)]) }
            let thread = OneThread()
            let isDone = Flag()
            let turns = await withTaskGroup(of: Int.self) { group in
                group.addTask(executorPreference: thread) {
                    let outcomes = await processor.process(works)
                    isDone.set()
                    #expect(outcomes == works.map { _ in .done })
                    return 0
                }
                group.addTask(executorPreference: thread) {
                    var turns = 0
                    while !isDone.isSet {
                        turns += 1
                        await Task.yield()
                    }
                    return turns
                }
                return await group.reduce(0, +)
            }
            #expect(turns > 100, "while the programs run")
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func aBatchOfASlowProgramEndsInTime() async throws {
        try await Self.withSlowProgram(longest: .milliseconds(20)) { processor in
            let works = [Self.work("slow/a", 0..<1000), Self.work("slow/b", 1000..<1001)]
            let outcomes = await processor.process(works)
            guard case .partly(let count) = outcomes[0] else {
                Issue.record("\(outcomes)")
                return
            }
            #expect(count > 0 && count < 1000)
            #expect(outcomes[1] == .partly(0))
            #expect(works[0].finished(by: outcomes[0]).map(\.offset) == (0..<Int64(count)).map { $0 })
        }
    }

    private static func work(_ key: String, _ offsets: some Sequence<Int64>) -> KeyedWork {
        let records = offsets.map { offset in
            KafkaRecord(
                topic: "slow", partition: 0, offset: offset, timestampMilliseconds: -1, key: Array(key.utf8),
                value: Array("{}".utf8))
        }
        return KeyedWork(key: Array(key.utf8), records: records)
    }

    /// Runs a body with a processor whose program ignores each record after some milliseconds.
    private static func withSlowProgram(
        longest: Duration, _ body: (IngestProcessor) async throws -> Void
    ) async throws {
        let program = "function map(e) for i = 1, 50000 do local t = {i} end end"
        // It is not needed for a record that is ignored.
        let kafka = KafkaConfiguration(bootstrap: "127.0.0.1:1")
        try await Self.withProcessor(program, kafka: kafka, longest: longest, body)
    }

    /// Runs a body with a processor of one source, which looks for no parcel.
    private static func withProcessor(
        _ program: String, kafka: KafkaConfiguration, longest: Duration = .seconds(30),
        _ body: (IngestProcessor) async throws -> Void
    ) async throws {
        let fixture = try SourceFixture()
        try fixture.write("slow", topics: ["slow"], program)
        let table = SourceTable([try fixture.load("slow")])
        let producer = try KafkaProducer(kafka)
        let redis = RedisClient(
            try RedisConfiguration(url: "redis://127.0.0.1:1"), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        let metrics = IngestMetrics(factory: MetricsRegistry())
        let mapper = Mapper(SourceFixture.sandbox, count: 1)
        let processor = IngestProcessor(
            topics: Topics(), producer: producer,
            deadLetters: DeadLetterPublisher(
                topics: Topics(), producer: producer, counter: metrics.deadLetters,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }),
            metrics: metrics, table: { table },
            mapper: SourceMapper(
                mapper: mapper, topic: Topics().orderChanges, parcels: OrderStore(redis: redis).parcels),
            unknown: UnknownOrders(patience: .zero, gauge: metrics.unknownAliases), longest: longest,
            now: { 1_767_225_600_000 })
        try await body(processor)
        await mapper.close()
        await producer.close()
        await redis.close()
    }

    /// A program names its own tables, as many as it likes.
    @Test func theTablesOfAProgramAreABoundedLabel() throws {
        let registry = MetricsRegistry()
        let metrics = IngestMetrics(factory: registry)
        for _ in 0..<2 {
            let mapping = try SourceFixture.map(
                """
                function map()
                    for index = 1, 60 do local _ = waybill.words("table" .. index, {})["x"] end
                end
                """, value: "{}")
            #expect(mapping.unknown.count == 60)
            metrics.mapped(mapping, "s", took: .zero)
        }
        let lines = registry.text.split(separator: "\n").filter { $0.hasPrefix("waybill_ingest_unknown_values_total{") }
        #expect(lines.count == 33)
        #expect(lines.contains { $0.contains(#"table="table7""#) && $0.hasSuffix(" 2") })
        #expect(lines.contains { $0.contains(#"table="other""#) && $0.hasSuffix(" 56") })
    }

    private static let package = OrderStore.StoredPackage(
        assets: [], head: [1], certificates: "certificates", tail: [2], entityTag: "e")

    /// An order with a parcel, as the packager stores it.
    private static func order(number: String) throws -> OrderState {
        OrderState(
            key: try OrderKey("order.com.example.shop/7"),
            document: OrderDocument(members: [
                "fulfillments": [
                    ["fulfillmentIdentifier": "f1", "carrier": "UPS", "trackingNumber": .string(number)]
                ]
            ]), token: AuthenticationToken(derived: String(repeating: "0", count: 32)), version: 1,
            modifiedEpochSeconds: 1_767_225_600)
    }

    /// The running role.
    private struct Role: Sendable {
        let broker: KafkaBroker
        let admin: KafkaAdmin
        let topics = Topics()
        let environment: ServiceEnvironment

        var metrics: String { self.environment.metrics.text }

        func produce(_ messages: [KafkaMessage]) async throws { try await IngestTests.produce(messages, self.broker) }

        func count(_ topic: String) async throws -> Int64 { try await self.admin.endOffsets(topic).values.reduce(0, +) }

        func untilNothingIsLeft(_ topics: [String]) async throws {
            try await eventually("nothing left", within: .seconds(60)) {
                for topic in topics {
                    let lag = try await self.admin.lag(group: Ingest.group, topic: topic)
                    if lag.values.reduce(0, +) != 0 { return false }
                }
                return true
            }
        }
    }

    private static func produce(_ messages: [KafkaMessage], _ broker: KafkaBroker) async throws {
        let producer = try KafkaProducer(KafkaConfiguration(bootstrap: broker.bootstrap))
        for outcome in await producer.produce(messages) { _ = try outcome.get() }
        await producer.close()
    }

    private static func broker(_ sources: [String]) throws -> KafkaBroker {
        let topics = Topics()
        return try KafkaBroker(
            topics: sources.map { .init($0, partitions: 2) }
                + [.init(topics.orderChanges, partitions: 4), .init(topics.deadLetters, partitions: 1)])
    }

    private static func run(
        _ fixture: SourceFixture, topics sources: [String], _ variables: [String: String] = [:],
        properties: [String: String] = [:], journal: LogJournal = LogJournal(), broker made: KafkaBroker? = nil,
        _ body: @Sendable (Role) async throws -> Void
    ) async throws {
        let broker = try made ?? Self.broker(sources)
        let quick = KafkaBroker.quickFile(properties)
        let settings = try Settings(
            environment: [
                "WAYBILL_KAFKA_BOOTSTRAP": broker.bootstrap, "WAYBILL_SOURCES": fixture.path,
                "WAYBILL_KAFKA_PROPERTIES": try fixture.directory.write("kafka.properties", quick),
            ].merging(variables) { $1 })
        let common = try CommonSettings(settings)
        let logger = Logger(label: "test") { _ in journal }
        let environment = ServiceEnvironment(
            common: common, group: MultiThreadedEventLoopGroup.singleton, metrics: MetricsRegistry(),
            readiness: Readiness(conditions: [WorkerCondition.joined]), logger: logger)
        let services = try await Ingest.build(
            try IngestSettings(settings, common: common, program: SourceFixture.program), environment)
        let group = ServiceGroup(services: services, logger: logger)
        let role = Role(
            broker: broker, admin: try KafkaAdmin(KafkaConfiguration(bootstrap: broker.bootstrap)),
            environment: environment)
        try await withThrowingTaskGroup { tasks in
            tasks.addTask { try await group.run() }
            let result: Result<Void, any Error>
            do { result = .success(try await body(role)) } catch { result = .failure(error) }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
            try result.get()
        }
        await role.admin.close()
        broker.close()
    }
}

private final class Count: Sendable {
    let value = Mutex(0)
}
