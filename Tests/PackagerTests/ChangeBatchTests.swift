import Kafka
import Logging
import Model
import Operations
import TestKit
import Testing

@testable import Packager

@Suite struct ChangeBatchTests {
    private func batch(_ records: [KafkaRecord]) -> ChangeBatch {
        ChangeBatch(KeyedWork.each(of: records)) { type in
            switch type.rawValue {
            case BrandFixture.orderType: .served
            case "order.com.example.broken": .awaited("its certificate is over")
            default: .unknown
            }
        }
    }

    @Test func aLineOfTheLogNamesTwentyElementsAndSaysHowManyMore() throws {
        let journal = LogJournal()
        var result = FoldResult(state: nil, effect: .none, outcomes: [])
        result.withheld = (0..<70_000).map { "lineItems \($0) without quantity, title" }
        let order = BatchOrder(place: 0, key: try ChangeLog.key("o"))
        ChangeAccount(
            metrics: PackagerMetrics(factory: MetricsRegistry()), logger: Logger(label: "test") { _ in journal }
        ).count([OrderDraft(order, stored: nil, folded: result, pictures: [])])
        let elements = try #require(journal.lines.first?.metadata["elements"])
        #expect(elements.hasPrefix("lineItems 0 without quantity, title; lineItems 1 without"))
        #expect(elements.hasSuffix("lineItems 19 without quantity, title; and 69980 more"))
    }

    @Test func changesAreGroupedByOrderInOffsetOrder() throws {
        var log = ChangeLog()
        let records = (0..<9).map { log.change("order.patched", "o\($0 % 3)", ["orderNumber": .string("\($0)")]) }
        let batch = self.batch(records)
        #expect(batch.orders.map(\.key.order.rawValue) == ["o0", "o1", "o2"])
        #expect(batch.orders.map { $0.changes.map(\.record.offset) } == [[0, 3, 6], [1, 4, 7], [2, 5, 8]])
        #expect(batch.refused.isEmpty)
    }

    @Test func aFaultyChangeIsRefusedAloneInItsBatch() throws {
        var log = ChangeLog()
        let records = [
            log.change("order.patched", "o", [:]), log.record(key: nil, value: nil),
            log.change("order.patched", "o", [:]),
        ]
        let batch = self.batch(records)
        #expect(batch.orders.map { $0.changes.map(\.record.offset) } == [[0, 2]])
        #expect(batch.refused.map(\.record.offset) == [1])
        #expect(batch.refused.map(\.fault.code) == [.invalidKey])
    }

    @Test func anUnknownOrderTypeIsRefusedAndNamedInTheReason() throws {
        var log = ChangeLog()
        let batch = self.batch([log.change("order.patched", "o", [:], orderType: "order.com.example.other")])
        #expect(batch.orders.isEmpty)
        #expect(batch.refused.map(\.fault.code) == [.unknownOrderType])
        #expect(batch.refused.first?.fault.reason.contains("order.com.example.other") == true)
    }

    @Test func onlyValidChangesAwaitABrokenBrand() throws {
        var log = ChangeLog()
        let type = "order.com.example.broken"
        let batch = self.batch([
            log.change("order.patched", "a", [:]), log.change("order.patched", "o", [:], orderType: type),
            log.change("order.exploded", "o", [:], orderType: type),
        ])
        #expect(batch.orders.map(\.place) == [0])
        #expect(batch.awaiting.map(\.place) == [1])
        #expect(batch.awaiting.map(\.reason) == ["its certificate is over"])
        #expect(batch.refused.map(\.fault.code) == [.unknownType])
    }

    @Test func aDeadLetterKeepsTheRecordAndAddsTheReason() throws {
        var log = ChangeLog(partition: 3, offset: 41)
        let headers = [KafkaHeader(name: "x", value: [0xFF]), KafkaHeader(name: "x", value: nil)]
        let record = log.record(key: "k", value: [0, 1, 2], headers: headers)
        let fault = ChangeFault(code: .invalidJSON, reason: "$: no JSON")
        let letter = DeadLetter.message(of: record, fault: fault, topics: Topics(prefix: "t."))
        #expect(letter.topic == "t.dead-letters")
        #expect(letter.key == record.key)
        #expect(letter.value == record.value)
        #expect(
            letter.headers == headers + [
                KafkaHeader(name: "waybill-error", text: "invalid-json"),
                KafkaHeader(name: "waybill-reason", text: "$: no JSON"),
                KafkaHeader(name: "waybill-origin", text: "waybill.order-changes/3/41"),
            ])
    }

    @Test func aDeadLetterOfARecordWithoutKeyAndValueHasNeither() throws {
        var log = ChangeLog()
        let record = log.record(key: nil, value: nil)
        let fault = ChangeFault(code: .missingValue, reason: "none")
        let letter = DeadLetter.message(of: record, fault: fault, topics: Topics())
        #expect(letter.key == nil)
        #expect(letter.value == nil)
    }
}
