import Kafka
import Model
import Operations
import Redis
import TestKit
import TestTraits
import Testing

@testable import Brands
@testable import Packager
@testable import Packaging

/// Changes that cannot be applied become dead letters, and the changes after them are still applied.
@Suite(.server) struct ChangeFaultTests {
    @Test func eachFaultyChangeBecomesADeadLetterAndLaterOnesApply() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let key = "\(BrandFixture.orderType)/o"
            var faults: [(ChangeFault.Code, KafkaRecord)] = []
            var records = [log.change("order.replaced", "o", ChangeLog.document())]
            func add(_ code: ChangeFault.Code, _ record: KafkaRecord) {
                faults.append((code, record))
                records.append(record)
            }
            add(.invalidJSON, log.record(key: key, value: Array("{".utf8), headers: [ChangeLog.contentType]))
            add(.invalidKey, log.record(key: nil, value: Array("{}".utf8)))
            add(.missingValue, log.record(key: key, value: nil))
            add(.invalidUTF8, log.record(key: key, value: [0x22, 0xFF, 0x22], headers: [ChangeLog.contentType]))
            add(.valueTooLarge, log.record(key: key, value: [UInt8](repeating: 0x20, count: 2_000_000)))
            add(.unknownType, log.change("order.exploded", "o", [:]))
            add(.subjectMismatch, log.change("order.patched", "o", [:], subject: "\(BrandFixture.orderType)/p"))
            add(.unknownOrderType, log.change("order.patched", "o", [:], orderType: "order.com.example.other"))
            add(.unknownOrder, log.change("order.patched", "never-seen", ["orderNumber": "1"]))
            add(.invalidOrder, log.change("order.patched", "o", ["status": "nonsense"]))
            add(.invalidOrder, log.change("order.patched", "o", ["statuss": "open"]))
            add(.invalidOrder, log.change("order.patched", "o", ["merchant": .null]))
            add(.invalidChange, log.change("fulfillment.updated", "o", ["fulfillmentIdentifier": 7]))
            records.append(log.change("order.patched", "o", ["orderNumber": "last"]))
            try await fixture.processor().process(records)

            #expect(try await fixture.state("o")?.document.members["orderNumber"] == "last")
            #expect(try await fixture.state("never-seen") == nil)
            let letters = try await fixture.read(fixture.topics.deadLetters, faults.count)
            #expect(letters.count == faults.count)
            #expect(fixture.counter("waybill_dead_letters_total") == Int64(faults.count))
            for (code, record) in faults {
                let origin = "\(record.topic)/\(record.partition)/\(record.offset)"
                let letter = try #require(letters.first { $0.header(RecordHeader.origin.rawValue) == origin })
                #expect(letter.header(RecordHeader.error.rawValue) == code.rawValue)
                #expect(letter.header(RecordHeader.reason.rawValue)?.isEmpty == false)
                #expect(letter.key == record.key)
                #expect(letter.value == record.value)
                #expect(Array(letter.headers.prefix(record.headers.count)) == record.headers)
            }
        }
    }

    @Test(arguments: [["HSET", "document", "{"], ["HSET", "version", "x"], ["HDEL", "token"], ["SET"]])
    func aChangeToADamagedOrderBecomesADeadLetter(_ damage: [String]) async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            let key = "waybill:1:order:{\(try ChangeLog.key("o"))}"
            if damage[0] == "SET" {
                _ = try await fixture.redis.send(RedisCommand("SET", .string(key), "no hash"))
            } else {
                _ = try await fixture.redis.send(
                    RedisCommand([.string(damage[0]), .string(key)] + damage.dropFirst().map { .string($0) }))
            }
            try await processor.process([
                log.change("order.patched", "o", ["orderNumber": "2"]),
                log.change("order.replaced", "p", ChangeLog.document()),
            ])
            #expect(try await fixture.state("p")?.version.ordinal == 1)
            let letters = try await fixture.read(fixture.topics.deadLetters, 1)
            #expect(letters.map { $0.header(RecordHeader.error.rawValue) } == ["corrupt-state"])
            #expect(letters[0].header(RecordHeader.reason.rawValue)?.contains("Redis") == true)
        }
    }

    /// The write of the order moves it past the change: a dead letter that failed after that would never be sent.
    @Test func aRetriedBatchLosesNoDeadLetter() async throws {
        try await PackagerFixture.run(producer: ["delivery.timeout.ms": "1000"]) { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            let batch = [
                log.change("order.patched", "o", ["status": "nonsense"]),
                log.change("order.patched", "o", ["orderNumber": "2"]),
            ]
            try fixture.broker.setDown()
            await #expect(throws: RetriableFailure.self) { try await processor.process(batch) }
            try fixture.broker.setUp()
            try await eventually("done") {
                do { try await processor.process(batch) } catch is RetriableFailure { return false }
                return true
            }
            let letters = try await fixture.read(fixture.topics.deadLetters, 1)
            #expect(letters.map { $0.header(RecordHeader.error.rawValue) } == ["invalid-order"])
            #expect(try await fixture.state("o")?.document.members["orderNumber"] == "2")
        }
    }

    /// Retried every few seconds while Redis is full, one fault could flood the topic.
    @Test func retriesOfAnOrderSendItsDeadLettersOnce() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let batch = [
                log.change("order.replaced", "o", ChangeLog.document()),
                log.change("order.patched", "o", ["status": 1]),
                log.change("order.exploded", "o", [:]),
            ]
            try await fixture.server.everywhere("CONFIG", "SET", "maxmemory", "1")
            for _ in 0..<3 { await #expect(throws: (any Error).self) { try await processor.process(batch) } }
            try await fixture.server.everywhere("CONFIG", "SET", "maxmemory", "0")
            try await processor.process(batch)
            #expect(try await fixture.count(fixture.topics.deadLetters) == 2)
            #expect(try await fixture.state("o")?.version.ordinal == 1)
            // A redelivery of finished work is different: it is unknown whether the first dead letter was sent.
            try await processor.process([batch[2]])
            #expect(try await fixture.count(fixture.topics.deadLetters) == 3)
        }
    }

    @Test func aBrokenBrandDelaysNoOrderOfOtherBrands() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let type = "order.com.example.broken"
            var processor = try fixture.processor()
            processor.awaited = { $0.rawValue == type ? "brand \(type) cannot be loaded" : nil }
            let works = KeyedWork.each(of: [
                log.change("order.replaced", "a", ChangeLog.document()),
                log.change("order.replaced", "b", ChangeLog.document(), orderType: type),
                log.change("order.replaced", "c", ChangeLog.document(), orderType: "order.com.example.nobody"),
            ])
            let outcomes = await processor.process(works)
            #expect(outcomes == [.done, .later(reason: "brand \(type) cannot be loaded"), .done])
            #expect(try await fixture.state("a")?.version.ordinal == 1)
            let letters = try await fixture.read(fixture.topics.deadLetters, 1)
            #expect(letters.map { $0.header(RecordHeader.error.rawValue) } == ["unknown-order-type"])
            #expect(try await fixture.count(fixture.topics.deadLetters) == 1)
        }
    }

    /// A signature that fails delays only its own order.
    @Test func aSigningFailureDelaysNoOtherOrder() async throws {
        try await PackagerFixture.run { fixture in
            let builder = PackageBuilder(fixture.brandFixture.brand)
            let packager = OrderPackager(fixture.brandFixture.brand, tokens: try BrandFixture.tokens()) {
                (order, pictures, now) throws(PackagingError) in
                if order.object?["orderNumber"] == "unsigned" { throw PackagingError(.signing, "no entropy") }
                return try builder.build(order, pictures: pictures, signingEpochSeconds: now)
            }
            var log = ChangeLog()
            let processor = try fixture.processor(packager: packager)
            let works = KeyedWork.each(of: [
                log.change("order.replaced", "a", ChangeLog.document()),
                log.change("order.replaced", "b", ChangeLog.document("unsigned")),
                log.change("order.replaced", "c", ChangeLog.document()),
                log.change("order.patched", "c", ["orderNumber": "2"]),
            ])
            let outcomes = await processor.process(works)
            #expect(outcomes.count == 3)
            #expect(outcomes[0] == .done)
            #expect(outcomes[2] == .done)
            guard case .later(let reason) = outcomes[1] else {
                Issue.record("b is to be tried again")
                return
            }
            #expect(reason.contains("no entropy"))
            #expect(try await fixture.state("a")?.version.ordinal == 1)
            #expect(try await fixture.state("b") == nil)
            #expect(try await fixture.count(fixture.topics.orders) == 2)
            #expect(fixture.counter("waybill_changes_consumed_total") == 3)
            #expect(fixture.counter("waybill_changes_conflated_total") == 1)
        }
    }

    @Test func anOversizedDeadLetterIsWrittenWithoutItsValue() async throws {
        try await PackagerFixture.run(producer: ["message.max.bytes": "50000"]) { fixture in
            var log = ChangeLog()
            let record = log.record(key: "k", value: [UInt8](repeating: 0x20, count: 60_000))
            try await fixture.processor().process([record, log.change("order.replaced", "o", ChangeLog.document())])
            let letters = try await fixture.read(fixture.topics.deadLetters, 1)
            #expect(letters[0].value == nil)
            #expect(letters[0].key == record.key)
            #expect(letters[0].header(RecordHeader.error.rawValue) == "invalid-key")
            #expect(letters[0].header(RecordHeader.reason.rawValue)?.contains("left out") == true)
            #expect(letters[0].header(RecordHeader.origin.rawValue) == "waybill.order-changes/0/0")
            #expect(try await fixture.state("o")?.version.ordinal == 1)
        }
    }

    /// Subtracting it from the clock would overflow and end the process, again and again.
    @Test(arguments: [Int64.min, -1, Int64.max])
    func aChangeWithAnExtremeTimestampIsApplied(_ timestamp: Int64) async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog(timestamp: timestamp)
            try await fixture.processor().process([log.change("order.replaced", "o", ChangeLog.document())])
            #expect(try await fixture.state("o")?.version.ordinal == 1)
        }
    }
}
