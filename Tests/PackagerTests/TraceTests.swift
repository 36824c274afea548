import Kafka
import Logging
import Model
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Operations
@testable import Packager

/// A trace from a change to the record of its version, its dead letter and the log.
@Suite(.server) struct TraceTests {
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"

    private static func parent(_ number: Int) -> String { "00-\(Self.trace)-00000000000000\(number + 10)-01" }

    private static func headers(_ number: Int) -> [KafkaHeader] {
        [
            ChangeLog.contentType, KafkaHeader(name: "traceparent", text: Self.parent(number)),
            KafkaHeader(name: "tracestate", text: "shop=\(number)"),
        ]
    }

    /// Collects the metadata of warnings.
    private final class Journal: Sendable {
        let lines = Mutex<[Logger.Metadata]>([])

        struct Handler: LogHandler {
            let journal: Journal
            var metadata: Logger.Metadata = [:]
            var logLevel = Logger.Level.warning

            subscript(metadataKey key: String) -> Logger.Metadata.Value? {
                get { self.metadata[key] }
                set { self.metadata[key] = newValue }
            }

            func log(event: LogEvent) { self.journal.lines.withLock { $0.append(event.metadata ?? [:]) } }
        }
    }

    @Test func aVersionHasTheNewestTraceAndLinksToTheOthers() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let key = "\(try ChangeLog.key("o"))"
            var records = [log.change("order.replaced", "o", ChangeLog.document())]
            for number in [1, 2, 2, 3] {
                let value = ChangeLog.event(
                    "order.patched", subject: key, id: "p\(log.offset)", ["orderNumber": .string("\(log.offset)")])
                records.append(log.record(key: key, value: value, headers: Self.headers(number)))
            }
            let processor = try fixture.processor()
            try await processor.process(records)
            let version = try #require(try await fixture.read(fixture.topics.orders, 1).first)
            #expect(version.header("traceparent") == Self.parent(3))
            #expect(version.header("tracestate") == "shop=3")
            #expect(version.header("waybill-links") == "\(Self.parent(2)),\(Self.parent(1))")

            // A worker that died before the acknowledgement publishes the version again with its traces.
            try await fixture.forgetTold("o")
            try await processor.process(records)
            let again = try #require(try await fixture.read(fixture.topics.orders, 2).last)
            #expect(again.headers == version.headers)

            try await processor.process([log.change("order.patched", "o", ["orderNumber": "9"])])
            #expect(try await fixture.read(fixture.topics.orders, 3).last?.headers == [])
        }
    }

    @Test func aDeadLetterAndItsLogLineNameTheTraceAndTheOrder() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let key = "\(try ChangeLog.key("o"))"
            let event: JSON = [
                "specversion": "1.0", "id": "1", "source": "/oms", "type": "waybill.order.renamed",
                "subject": .string(key), "traceparent": .string(Self.parent(1)), "tracestate": "shop=1",
            ]
            let journal = Journal()
            let publisher = DeadLetterPublisher(
                topics: fixture.topics, producer: fixture.producer,
                counter: PackagerMetrics(factory: fixture.metrics).deadLetters,
                logger: Logger(label: "test") { _ in Journal.Handler(journal: journal) })
            let fault = ChangeFault(code: .unknownType, reason: "no")
            let refused = [
                log.record(key: key, value: event.serialized, headers: [ChangeLog.contentType]),
                log.record(key: key, value: nil, headers: Self.headers(2)),
                log.record(key: "x", value: nil),
            ].map { RefusedRecord(place: 0, record: $0, fault: fault) }
            var outcomes = BatchOutcomes(count: 1)
            await publisher.send(refused, &outcomes)

            let letters = try await fixture.read(fixture.topics.deadLetters, 3)
            #expect(letters.map { $0.header("traceparent") } == [Self.parent(1), Self.parent(2), nil])
            #expect(letters.map { $0.header("tracestate") } == ["shop=1", "shop=2", nil])
            #expect(letters.map { $0.headers.count { $0.name == "traceparent" } } == [1, 1, 0])
            let lines = journal.lines.withLock { $0 }
            #expect(lines.map { $0["trace_id"] } == [.string(Self.trace), .string(Self.trace), nil])
            #expect(lines.map { $0["order"] } == [.string(key), .string(key), nil])
        }
    }

    @Test func fiveConflatedChangesAreOneSpanWithFiveLinks() async throws {
        try await PackagerFixture.run { fixture in
            let collector = try await SpanCollector.start()
            let exporter = try SpanExporter(
                url: collector.url, format: SpanExport(service: "waybill-packager", version: "1"),
                metrics: fixture.metrics, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                interval: .milliseconds(10))
            var log = ChangeLog()
            let key = "\(try ChangeLog.key("anna"))"
            var records = [log.change("order.replaced", "anna", ChangeLog.document())]
            for number in 1...5 {
                let value = ChangeLog.event(
                    "order.patched", subject: key, id: "p\(number)", ["orderNumber": .string("\(number)")])
                records.append(log.record(key: key, value: value, headers: Self.headers(number)))
            }
            records.append(log.record(key: key, value: Array("{".utf8), headers: Self.headers(6)))
            let processor = try fixture.processor(spans: exporter)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await exporter.run() }
                try await processor.process(records)
                try await eventually("spans") { collector.spans.count == 2 }
                group.cancelAll()
            }
            let spans = collector.spans
            let version = try #require(spans.first { $0["name"] == "waybill.package" })
            #expect(version["traceId"]?.string == Self.trace)
            #expect(version["parentSpanId"] == "0000000000000015")
            let links = version["links"]?.array?.map { $0.object?["spanId"]?.string }
            #expect(links == (11...15).reversed().map { "00000000000000\($0)" })
            #expect(version.attribute("waybill.outcome") == "published")
            #expect(version.attribute("waybill.order_type") == BrandFixture.orderType)
            let stored = try #require(try await fixture.state("anna"))
            #expect(version.attribute("waybill.version") == "\(stored.version)")
            let events = version["events"]?.array?.map { $0.object?["name"]?.string }
            #expect(events == ["read", "sign", "write", "publish"])
            let letter = try #require(spans.first { $0["name"] == "waybill.dead_letter" })
            #expect(letter["parentSpanId"] == "0000000000000016")
            #expect(letter.attribute("waybill.outcome") == "invalid-json")
            #expect(collector.bodies.allSatisfy { !$0.text.contains("anna") }, "nothing names the order")
            await collector.server.stop()
        }
    }

    @Test func theSpanOfAMappedRecordNamesSourceAndOutcome() throws {
        let record = KafkaRecord(
            topic: "events", partition: 0, offset: 0, timestampMilliseconds: 0, key: nil, value: Array("{}".utf8),
            headers: Self.headers(1))
        let mapping = try SourceFixture.map("function map() end", value: "{}")
        let span = try #require(mapping.span(of: record, "s", took: .milliseconds(5), now: 12_000_000))
        #expect(span.start == 7_000_000)
        #expect(span.end == 12_000_000)
        #expect(span.attributes.map(\.value) == ["s", "ignored"])
        #expect(!span.isError)
        let refused = try SourceFixture.map("function map() error('x') end", value: "{}")
        #expect(refused.span(of: record, "s", took: .zero, now: 0)?.isError == true)
    }

    @Test func theLineOfARetryNamesTheOrderAndTheNewestTrace() throws {
        var log = ChangeLog()
        let key = "\(try ChangeLog.key("o"))"
        let event: JSON = ["specversion": "1.0", "traceparent": .string(Self.parent(1))]
        let records = [
            log.record(key: key, value: event.serialized, headers: [ChangeLog.contentType]),
            log.record(key: key, value: Array("{".utf8), headers: []),
        ]
        let metadata = KeyedWork(key: Array(key.utf8), records: records).metadata
        #expect(metadata == ["order": .string(key), "trace_id": .string(Self.trace)])
        // A source's key names no order.
        #expect(KeyedWork(key: Array("x".utf8), records: [records[1]]).metadata.isEmpty)
    }
}
