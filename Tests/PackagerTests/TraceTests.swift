import Kafka
import Logging
import Model
import Operations
import Synchronization
import TestTraits
import Testing

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
