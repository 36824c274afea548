import CoreMetrics
import Kafka
import Logging
import Operations
import ServiceLifecycle

/// Counts the open dead letters as long as the packager runs.
///
/// It reads what came since it read last, and all of it again once retention has deleted some. Bounded: `limit` dead
/// letters, some 100 bytes each, are remembered; beyond that the gauges show the least.
struct DeadLetterWatch: Service {
    static let interval = Duration.seconds(30)
    private static let limit = 100_000

    private let letters: DeadLetterTopic
    private let open: Gauge
    private let oldest: Gauge
    private let logger: Logger
    private let interval: Duration

    /// - Parameter letters: the topic, with a reader that is closed at the end.
    init(
        _ letters: DeadLetterTopic, metrics factory: any MetricsFactory, logger: Logger,
        interval: Duration = Self.interval
    ) {
        self.letters = letters
        self.open = Gauge(label: "waybill_dead_letters_open", factory: factory)
        self.oldest = Gauge(label: "waybill_dead_letters_oldest_seconds", factory: factory)
        self.logger = logger
        self.interval = interval
    }

    func run() async throws {
        try? await cancelWhenGracefulShutdown { try await self.watch() }
        await self.letters.reader.close()
    }

    private func watch() async throws {
        var index = DeadLetterIndex(DeadLetterFilter(), limit: Self.limit)
        var firsts: [Int64] = []
        while true {
            do {
                let bounds = try await self.letters.bounds()
                if bounds.map(\.first) != firsts { index = DeadLetterIndex(DeadLetterFilter(), limit: Self.limit) }
                firsts = bounds.map(\.first)
                index = try await self.letters.readOn(index, to: bounds)
                let open = index.open
                self.open.record(open.count)
                let oldest = open.map(\.milliseconds).min() ?? .max
                self.oldest.record(max(0, Double(nowMilliseconds()) - Double(oldest)) / 1000)
            } catch {
                try Task.checkCancellation()
                // The consumer reports its own outages, and the check of topics a right that is missing.
                self.logger.debug("cannot count dead letters", metadata: ["error": "\(error)"])
            }
            try await Task.sleep(for: self.interval)
        }
    }
}
