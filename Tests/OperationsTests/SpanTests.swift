import Foundation
import Logging
import Model
import ServiceLifecycle
import ServiceLifecycleTestKit
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Operations

/// Spans, and their way to a collector.
@Suite(.server, .timeLimit(.minutes(1))) struct SpanTests {
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"

    private static func context(_ number: Int, flags: String = "01") throws -> TraceContext {
        try #require(
            TraceContext(traceparent: "00-\(Self.trace)-00000000000000\(number + 10)-\(flags)", tracestate: "a=1"))
    }

    private static func span(_ contexts: [TraceContext], isError: Bool = false) -> TraceSpan? {
        TraceSpan(
            "waybill.package", .consumer, of: contexts, from: 1_767_225_600_000_000_000, to: 1_767_225_600_250_000_000,
            attributes: [("waybill.outcome", "published"), ("waybill.version", .integer(9_007_199_254_740_993))],
            events: [("sign", 1_767_225_600_200_000_000)], isError: isError)
    }

    /// Counts the lines of the log.
    private final class Journal: Sendable {
        let count = Mutex(0)

        var logger: Logger { Logger(label: "test") { _ in Handler(journal: self) } }

        private struct Handler: LogHandler {
            let journal: Journal
            var metadata: Logger.Metadata = [:]
            var logLevel = Logger.Level.warning

            subscript(metadataKey key: String) -> Logger.Metadata.Value? {
                get { self.metadata[key] }
                set { self.metadata[key] = newValue }
            }

            func log(event: LogEvent) { self.journal.count.withLock { $0 += 1 } }
        }
    }

    private static func exporter(
        _ url: String, _ metrics: MetricsRegistry = MetricsRegistry(), _ logger: Logger = Journal().logger
    ) throws -> SpanExporter {
        try SpanExporter(
            url: url, format: SpanExport(service: "waybill-packager", version: "1"), metrics: metrics, logger: logger,
            interval: .milliseconds(10))
    }

    /// The same file is parsed by `compose/verify/checks/spans.py` with the types of OTLP.
    @Test func theBodyIsThatOfTheExample() throws {
        let spans = [
            Self.span([try Self.context(0)]),
            Self.span(try (0..<5).reversed().map { try Self.context($0) }, isError: true),
        ].compactMap { $0 }
        let body = SpanExport(service: "waybill-packager", version: "1").body(spans) { 0xABC }
        let example = Repository.root.appending(path: "compose/verify/checks/spans.json")
        #expect(try JSON(parsing: body) == JSON(parsing: [UInt8](Data(contentsOf: example))))
    }

    @Test func onlyASampledTraceHasASpan() throws {
        let sampled = try Self.context(0)
        let other = try Self.context(1, flags: "00")
        #expect(Self.span([]) == nil)
        #expect(Self.span([other, sampled]) == nil, "the newest decides")
        #expect(Self.span([sampled, other]) != nil)
    }

    @Test func spansArriveAndTheLastOnesBeforeTheEnd() async throws {
        let collector = try await SpanCollector.start()
        let metrics = MetricsRegistry()
        let exporter = try Self.exporter(collector.url, metrics)
        let span = Self.span([try Self.context(0)])
        try await testGracefulShutdown { trigger in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await exporter.run() }
                for _ in 0..<SpanExporter.batch + 1 { exporter.record(span) }
                try await eventually("two requests or more") { collector.spans.count == SpanExporter.batch + 1 }
                exporter.record(span)
                trigger.triggerGracefulShutdown()
                try await group.waitForAll()
            }
        }
        let spans = collector.spans
        #expect(spans.count == SpanExporter.batch + 2)
        #expect(Set(spans.map { $0["spanId"]?.string ?? "" }).count == spans.count, "each has its identifier")
        #expect(collector.bodies.count >= 3)
        #expect(!metrics.text.contains("waybill_spans_dropped_total 1"))
        await collector.server.stop()
    }

    @Test(arguments: [nil, 503])
    func aCollectorThatDoesNotTakeThemCostsNothingAndOneLine(status: Int?) async throws {
        let collector = try await SpanCollector.start(status: status ?? 200)
        // A closed port.
        if status == nil { await collector.server.stop() }
        let (metrics, journal) = (MetricsRegistry(), Journal())
        let exporter = try Self.exporter(collector.url, metrics, journal.logger)
        let span = Self.span([try Self.context(0)])
        try await testGracefulShutdown { trigger in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await exporter.run() }
                for count in 1...3 {
                    exporter.record(span)
                    try await eventually("dropped after one attempt") {
                        metrics.text.contains("waybill_spans_dropped_total \(count)\n")
                    }
                }
                trigger.triggerGracefulShutdown()
                try await group.waitForAll()
            }
        }
        #expect(journal.count.withLock { $0 } == 1)
        #expect(collector.bodies.count == (status == nil ? 0 : 3))
        await collector.server.stop()
    }

    @Test func aFullBufferTakesNoMoreSpans() throws {
        let metrics = MetricsRegistry()
        let exporter = try Self.exporter("http://127.0.0.1:1/v1/traces", metrics)
        let span = Self.span([try Self.context(0)])
        for _ in 0..<SpanExporter.limit + 3 { exporter.record(span) }
        exporter.record(nil)
        #expect(metrics.text.contains("waybill_spans_dropped_total 3\n"))
    }

    @Test(arguments: ["collector:4318", "grpc://collector:4317", "http://user:word@collector/v1/traces", "http://"])
    func aURLThatIsNoCollectorsIsRefused(_ url: String) throws {
        let error = #expect(throws: SettingsError.self) {
            try CommonSettings(Settings(environment: ["WAYBILL_TRACES_URL": url]))
        }
        #expect(error?.description.hasPrefix("WAYBILL_TRACES_URL") == true)
        #expect(error?.description.contains("word") == false)
    }

    /// Collectors take a token in the path or the query.
    @Test(arguments: [
        ("https://otlp.example:4318/token-word/v1/traces?key=word", "https://otlp.example:4318/(redacted)"),
        ("http://collector", "http://collector"), ("https://collector?word", "https://collector/(redacted)"),
        ("https://user:word@collector/v1", "(redacted)"), ("collector:4318/word", "(redacted)"),
    ])
    func aCollectorIsShownByItsHost(_ url: String, _ shown: String) throws {
        let settings = try Settings(environment: ["WAYBILL_TRACES_URL": url])
        _ = settings.text(.tracesURL)
        #expect(settings.effective.map { $0.value } == [shown])
        #expect(!SettingsError(.tracesURL, value: url, "is wrong").description.contains("word"))
    }

    @Test func spansAreOffByDefault() throws {
        #expect(try CommonSettings(Settings(environment: [:])).tracesURL == nil)
        for url in ["http://collector:4318/v1/traces", "https://collector/v1/traces"] {
            #expect(try CommonSettings(Settings(environment: ["WAYBILL_TRACES_URL": url])).tracesURL == url)
        }
    }
}
