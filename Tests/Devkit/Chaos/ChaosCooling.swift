import Kafka
import Model
import NIOPosix
import Redis
import Store
import Synchronization
import TestKit

/// Cools orders at random moments, young ones as well, as the sweep of a packager does with old ones: it verifies the
/// record at each order's place and then forgets the document. The next reader or writer of the order warms it.
final class ChaosCooling: Sendable {
    /// The most orders that are cooled together.
    private static let count = 40
    private static let pauses = 100...1500

    private let isEnded = Mutex(false)

    /// Cools no more orders after those in hand.
    func end() { self.isEnded.withLock { $0 = true } }

    /// - Parameter run: its Redis and its Kafka may fail at any time.
    func cool(_ run: ChaosRun) async throws {
        guard let url = run.stack.redis else { return }
        let redis = RedisClient(try RedisConfiguration(url: url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        let view = ViewEpochCache(MaterializedView(redis: redis))
        while !self.isEnded.withLock({ $0 }), !Task.isCancelled {
            try? await Task.sleep(for: .milliseconds(Int.random(in: Self.pauses)))
            let orders = run.publisher.someOrders(Int.random(in: 1...Self.count))
            do {
                let keys = try orders.map {
                    OrderKey(
                        orderType: run.stack.orderType,
                        order: try OrderIdentifier(run.plan.orders[$0].identifier))
                }
                let outcomes = try await run.withColdOrders(redis, view, verifies: true) { try await $0.cool(keys) }
                for outcome in outcomes { run.tally.count("cooling.\(outcome.name)") }
            } catch {
                // Redis is away or being restored, or Kafka is.
                run.tally.count("cooling.failed")
            }
        }
        await redis.close()
    }
}

extension OrderStore.CoolingOutcome {
    fileprivate var name: String {
        switch self {
        case .cooled: "cooled"
        case .changed: "changed"
        case .unplaced: "unplaced"
        case .differs: "differs"
        case .unread: "unread"
        }
    }
}

extension ChaosRun {
    /// The longest wait for records.
    private static let recordPatience = Duration.seconds(5)

    /// Runs `body` with a store that reads cold orders from the cluster in use.
    ///
    /// - Parameter verifies: true for reads before orders cool: a record is then one of the place's own cluster only.
    func withColdOrders<Value: Sendable>(
        _ redis: RedisClient, _ view: ViewEpochCache? = nil, verifies: Bool = false,
        _ body: (OrderStore) async throws -> Value
    ) async throws -> Value {
        let reader = try KafkaReader(ofSingleRecords: self.stack.kafkaConfiguration(), patience: Self.recordPatience)
        let store = OrderStore(redis: redis, view: view) { orders in
            let places = orders.map { (partition: $0.record.partition, offset: $0.record.offset) }
            let found = await reader.records(of: Topics().orders, at: places)
            return zip(orders, found).map { order, found -> Result<OrderRecord?, any Error> in
                Result {
                    guard let record = try found.get(), record.key == Array(order.key.description.utf8),
                        let value = record.value, !verifies || order.record.isIn(cluster: record.cluster)
                    else { return nil }
                    return try OrderRecord.decode(value)
                }
            }
        }
        let result: Result<Value, any Error>
        do { result = .success(try await body(store)) } catch { result = .failure(error) }
        await reader.close()
        return try result.get()
    }
}
