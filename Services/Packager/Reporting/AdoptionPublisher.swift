import CoreMetrics
import FoundationEssentials
import Kafka
import Logging
import Model
import Operations
import ServiceLifecycle
import Store
import Synchronization

/// Publishes the sums of each brand and day as long as the packager runs, and shows what is in Wallet.
///
/// One packager at a time publishes, each minute. A sum that was published before is published again by a packager that
/// does not know of that: the topic is compacted.
final class AdoptionPublisher: Service {
    /// The time between two publications.
    static let period = Duration.seconds(60)
    /// The time for which the turn stays with a packager that does not end it.
    private static let lease = Duration.seconds(120)
    /// The interval at which a packager checks whether it is its turn.
    private static let interval = Duration.seconds(15)

    private let totals: AdoptionTotals
    private let topic: String
    private let producer: KafkaProducer
    private let environment: ServiceEnvironment
    /// Returns the configured brands: no other one becomes a label.
    private let brands: @Sendable () -> [OrderTypeIdentifier]
    private let owner = ViewRecovery.randomName()
    private let published = Mutex<[AdoptionKey: AdoptionRecord]>([:])

    init(
        _ totals: AdoptionTotals, topic: String, producer: KafkaProducer, _ environment: ServiceEnvironment,
        brands: @escaping @Sendable () -> [OrderTypeIdentifier]
    ) {
        self.totals = totals
        self.topic = topic
        self.producer = producer
        self.environment = environment
        self.brands = brands
    }

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while true {
                try await Task.sleep(for: Self.interval * Double.random(in: 0.5...1))
                do {
                    try await self.act(nowEpochSeconds: nowMilliseconds() / 1000)
                } catch {
                    try Task.checkCancellation()
                    self.environment.logger.warning(
                        "cannot publish adoption, retrying", metadata: ["error": "\(error)"])
                }
            }
        }
    }

    /// Shows the levels, and publishes if it is this packager's turn.
    private func act(nowEpochSeconds: Int64) async throws {
        let standing = try await self.totals.all()
        for brand in self.brands() {
            let label = [("brand", brand.rawValue)]
            let factory = self.environment.metrics
            if let orders = standing.level(.orders, of: brand) {
                Gauge(label: "waybill_wallet_orders", dimensions: label, factory: factory).record(orders)
            }
            if let devices = standing.level(.devices, of: brand) {
                Gauge(label: "waybill_wallet_devices", dimensions: label, factory: factory).record(devices)
            }
        }
        guard try await self.totals.claim(by: self.owner, lease: Self.lease, period: Self.period) else { return }
        try await self.publish(nowEpochSeconds: nowEpochSeconds)
        try await self.totals.end(by: self.owner, period: Self.period)
    }

    /// Publishes what has changed, and deletes the counts of days that are over.
    func publish(nowEpochSeconds: Int64) async throws {
        // Read when it is this packager's turn: a sum of before must not follow one of another packager.
        let days = AdoptionDays(try await self.totals.all(), nowEpochSeconds: nowEpochSeconds)
        let before = self.published.withLock { $0 }
        let news = days.records.filter { before[$0.key] != $0.value }
        let outcomes = await self.producer.produce(
            news.map { KafkaMessage(topic: self.topic, key: Array($0.key.text.utf8), value: $0.value.encoded) })
        for outcome in outcomes { _ = try outcome.get() }
        self.published.withLock { $0 = days.records }
        try await self.totals.delete(days.over)
    }
}

/// The counts in Redis that are to be published.
struct AdoptionDays: Hashable {
    private(set) var records: [AdoptionKey: AdoptionRecord] = [:]
    /// The counts that are published for good: those of the day before yesterday, and older ones.
    private(set) var over: [AdoptionTotals.Name] = []

    init(_ standing: AdoptionTotals.Standing, nowEpochSeconds: Int64) {
        guard !standing.part.isEmpty else { return }
        let today = AdoptionKey.day(epochSeconds: nowEpochSeconds)
        let yesterday = AdoptionKey.day(epochSeconds: nowEpochSeconds - 86_400)
        func key(_ brand: OrderTypeIdentifier, _ day: String) -> AdoptionKey {
            AdoptionKey(brand: brand, day: day, part: standing.part)
        }
        for (name, number) in standing.numbers {
            switch name {
            case .count(let figure, let brand, let day):
                self.records[key(brand, day), default: AdoptionRecord(counts: [:])].counts[figure] = number
                if day < yesterday { self.over.append(name) }
            case .level(_, let brand):
                guard standing.isCounted else { continue }
                let key = key(brand, today)
                self.records[key, default: AdoptionRecord(counts: [:])].orders = standing.level(.orders, of: brand)
                self.records[key]?.devices = standing.level(.devices, of: brand)
            }
        }
    }
}
