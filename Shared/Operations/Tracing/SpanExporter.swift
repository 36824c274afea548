import CoreMetrics
import Fetch
import Logging
public import ServiceLifecycle
import Synchronization

/// Collects spans, and sends them to the collector that `WAYBILL_TRACES_URL` names.
///
/// Nothing waits for it: spans that find the buffer full, or that the collector does not take at the first attempt, are
/// dropped and counted. Owner: the service group, which stops it after the services that make spans; then it sends what
/// is left. Thread: any may record. Bounded: `limit` spans, and the time of each request.
public final class SpanExporter: Service {
    /// The most spans that wait. One has at most a few kilobytes.
    static let limit = 4096
    /// The most spans of one request.
    static let batch = 512
    /// The time from one round to the next.
    static let interval = Duration.seconds(1)
    /// The time for one request.
    static let timeout = Duration.seconds(3)
    /// The time for the last request, after a service was told to stop.
    static let lastTimeout = Duration.seconds(1)
    /// The time between two log lines about a collector that is away.
    static let logPause = Duration.seconds(60)

    private let url: String
    private let format: SpanExport
    private let fetcher: Fetcher
    private let dropped: Counter
    private let logger: Logger
    private let interval: Duration
    private let spans = Mutex<[TraceSpan]>([])
    private let loggedAt = Mutex<ContinuousClock.Instant?>(nil)

    /// - Throws: `FetchError` if libcurl or the system refuses.
    init(
        url: String, format: SpanExport, metrics: any MetricsFactory, logger: Logger,
        interval: Duration = SpanExporter.interval
    ) throws(FetchError) {
        var configuration = FetcherConfiguration()
        configuration.concurrency = 1
        self.fetcher = try Fetcher(configuration)
        self.url = url
        self.format = format
        self.dropped = Counter(label: "waybill_spans_dropped_total", factory: metrics)
        self.logger = logger
        self.interval = interval
    }

    /// Keeps a span until it is sent.
    public func record(_ span: TraceSpan?) {
        guard let span else { return }
        let isKept = self.spans.withLock { spans in
            guard spans.count < Self.limit else { return false }
            spans.append(span)
            return true
        }
        if !isKept { self.dropped.increment() }
    }

    public func run() async throws {
        // A request under way is not cut off by a stop.
        while (try? await cancelWhenGracefulShutdown { try await Task.sleep(for: self.interval) }) != nil {
            while await self.send(within: Self.timeout) {}
        }
        while await self.send(within: Self.lastTimeout) {}
        await self.fetcher.close()
    }

    /// Sends one batch.
    ///
    /// - Returns: true if another one may follow at once.
    private func send(within timeout: Duration) async -> Bool {
        let spans = self.spans.withLock { spans in
            let first = Array(spans.prefix(Self.batch))
            spans.removeFirst(first.count)
            return first
        }
        guard !spans.isEmpty else { return false }
        var generator = SystemRandomNumberGenerator()
        let body = self.format.body(spans) { .random(in: 1 ... .max, using: &generator) }
        var failure: String?
        do throws(FetchError) {
            let answer = try await self.fetcher.exchange(Self.request(self.url, body, within: timeout))
            if answer.status != 200 { failure = "status \(answer.status)" }
        } catch {
            failure = error.message
        }
        guard let failure else { return spans.count == Self.batch }
        self.dropped.increment(by: spans.count)
        self.warn(failure)
        return false
    }

    private static func request(_ url: String, _ body: [UInt8], within timeout: Duration) -> FetchRequest {
        var request = FetchRequest(url: url) { _ in true }
        request.mayBePlain = true
        request.addresses = .any
        request.body = (body, "application/json")
        request.sizeLimit = 64 << 10
        request.timeout = timeout
        return request
    }

    /// - Throws: `FetchError` with code `.url` for a text that is no URL of a collector.
    static func check(url: String) throws(FetchError) { try Self.request(url, [], within: .zero).check() }

    private func warn(_ reason: String, now: ContinuousClock.Instant = .now) {
        let isDue = self.loggedAt.withLock { loggedAt in
            if let loggedAt, now - loggedAt < Self.logPause { return false }
            loggedAt = now
            return true
        }
        guard isDue else { return }
        self.logger.warning("spans are dropped: the collector does not take them", metadata: ["error": "\(reason)"])
    }
}
