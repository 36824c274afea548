import Kafka
import Model
import Operations
import Redis
import TestKit
import TestTraits
import Testing

@testable import Packager
@testable import Store

/// Large orders with small changes: memory follows what is read, and what Kafka would not accept is refused in time.
@Suite(.timeLimit(.minutes(3))) struct LargeOrderTests {
    /// Returns an order of about this many kilobytes.
    private static func document(kilobytes: Int) -> JSON {
        ChangeLog.document(extra: [
            (
                "lineItems",
                .array(
                    (0..<kilobytes).map { number in
                        ["title": .string(String(repeating: "\(number % 10)", count: 960)), "quantity": 1]
                    })
            )
        ])
    }

    @Test(.server) func aBatchReadsItsLargeOrdersInPages() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let large = (0..<60).map { "large-\($0)" }
            for start in stride(from: 0, to: large.count, by: 10) {
                try await processor.process(
                    large[start..<start + 10].map {
                        log.change("order.replaced", $0, Self.document(kilobytes: 200))
                    })
            }
            let small = (0..<40).map { "small-\($0)" }
            try await processor.process(small.map { log.change("order.replaced", $0, ChangeLog.document()) })
            #expect(processor.load.most == 0, "new orders read nothing")

            let keys = (large + small).shuffled()
            let works = KeyedWork.each(of: keys.map { log.change("order.patched", $0, ["orderNumber": "2"]) })
            let outcomes = await processor.process(works)
            #expect(outcomes.allSatisfy { $0 == .done })
            let pages = OrderStore.pageBytes + OrderStore.smallDocument * small.count
            #expect((1 << 20...pages).contains(processor.load.most), "12 MB stand in Redis, \(processor.load.most)")
            #expect(fixture.metrics.text.contains("waybill_documents_in_hand_bytes 0"))
            for order in ["large-0", "large-59", "small-0"] {
                #expect(try await fixture.state(order)?.document.members["orderNumber"] == "2")
                #expect(try await fixture.state(order)?.version.ordinal == 2)
            }
            // Other readers of orders get them whole, in the order requested.
            let read = try await OrderStore(redis: fixture.redis).orders(try keys.map(ChangeLog.key))
            for (order, result) in zip(keys, read) {
                #expect(try result.get()?.state.key == ChangeLog.key(order))
                #expect(try (result.get()?.documentBytes ?? 0 > 190_000) == order.hasPrefix("large"))
            }
        }
    }

    /// With a whole batch in one pipeline, this would far exceed what two seconds can transfer.
    @Test func pagesAreBoundedByBytesUnlessASingleOrderIsLarger() {
        let sizes = [1, 2, 3, 5 << 20, 1, 4 << 20, 4 << 20, 1 << 20, 3 << 20, 1]
        let pages = OrderStore.pages(sizes.enumerated().map { (item: $0, bytes: $1) })
        #expect(pages.flatMap(\.self) == Array(sizes.indices))
        for page in pages where page.count > 1 {
            #expect(page.reduce(0) { $0 + sizes[$1] } <= OrderStore.pageBytes)
        }
        #expect(pages.count == 7)
        #expect(OrderStore.pages([(item: Int, bytes: Int)]()).isEmpty)
    }

    @Test(.server) func aChangeTooLargeForKafkaIsRefusedBeforeTheWrite() async throws {
        try await PackagerFixture.run(producer: ["message.max.bytes": "50000"]) { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let lineItems = Self.document(kilobytes: 60).object?["lineItems"] ?? .null
            try await processor.process([
                log.change("order.replaced", "o", ChangeLog.document()),
                log.change("order.patched", "o", ["lineItems": lineItems]),
                log.change("order.patched", "o", ["orderNumber": "2"]),
                log.change("order.replaced", "p", Self.document(kilobytes: 60)),
            ])
            #expect(try await fixture.state("o")?.document.members["orderNumber"] == "2")
            #expect(try await fixture.state("o")?.version.ordinal == 1)
            #expect(try await fixture.state("p") == nil)
            #expect(try await fixture.count(fixture.topics.orders) == 1)
            let letters = try await fixture.read(fixture.topics.deadLetters, 2)
            #expect(letters.map { $0.header(RecordHeader.error.rawValue) } == ["invalid-package", "invalid-package"])
            let reason = try #require(letters[0].header(RecordHeader.reason.rawValue))
            #expect(reason.contains("max.message.bytes"))
            #expect(reason.contains("bytes and Kafka's topic of orders allows"))
        }
    }

    @Test func aRefusedSizeLimitsRecordsUntilALargerOneIsAccepted() {
        let limit = RecordLimit(producer: 100_000)
        let first = limit.value
        #expect(first < 100_000)
        limit.taken(50_000)
        #expect(limit.value == first)
        limit.refused(60_000)
        #expect(limit.value < 60_000)
        #expect(limit.value > 50_000)
        let known = limit.value
        limit.refused(90_000)
        limit.taken(50_000)
        #expect(limit.value == known)
        limit.taken(60_000)
        #expect(limit.value == first)
        limit.refused(1)
        #expect(limit.value == 0)
    }
}
