import CoreMetrics
import Kafka
import Model
import Operations
import Redis
import ServiceLifecycle
import Store
import Synchronization

/// Reads the records of cold orders from `waybill.orders`, for an `OrderStore`.
///
/// It connects when the first one is read. A graceful shutdown ends the waits for records. Threads: any.
final class ColdOrders: Sendable {
    /// The longest wait for a record.
    private static let patience = Duration.seconds(5)

    private enum State {
        case idle
        case open(KafkaReader)
        case closed
    }

    private let topic: String
    private let configuration: KafkaConfiguration
    /// Nil for reads that verify places: a record is then one of the place's own cluster only.
    private let read: Counter?
    private let state = Mutex(State.idle)

    /// - Parameter verifies: true for the reads before orders cool, which do not count as reads of cold ones.
    convenience init(_ environment: ServiceEnvironment, verifies: Bool = false) {
        self.init(
            topic: environment.common.topics.orders, environment.kafka, verifies ? nil : environment.metrics)
    }

    /// - Parameters:
    ///   - topic: that of the orders.
    ///   - metrics: nil for reads that verify places.
    init(topic: String, _ configuration: KafkaConfiguration, _ metrics: (any MetricsFactory)?) {
        self.topic = topic
        self.configuration = configuration
        self.read = metrics.map { Counter(label: "waybill_cold_orders_read_total", factory: $0) }
    }

    /// Makes a store that reads cold orders here.
    func store(_ redis: RedisClient, view: ViewEpochCache? = nil) -> OrderStore {
        OrderStore(redis: redis, view: view) { await self.records($0) }
    }

    /// Makes one for a command, which fails if the view is not complete.
    func store(ofCompleteView redis: RedisClient) -> OrderStore {
        self.store(redis, view: ViewEpochCache(MaterializedView(redis: redis)))
    }

    func records(
        _ orders: [(key: OrderKey, record: PublishedRecord)]
    ) async -> [Result<OrderRecord?, any Error>] {
        let reader: KafkaReader
        do { reader = try self.reader() } catch { return orders.map { _ in .failure(error) } }
        self.read?.increment(by: orders.count)
        let verifies = self.read == nil
        let places = orders.map { (partition: $0.record.partition, offset: $0.record.offset) }
        let found = await cancelWhenGracefulShutdown { await reader.records(of: self.topic, at: places) }
        return await onAllCores(Array(zip(orders, found))) { order, found in
            Result {
                guard let record = try found.get(), record.key == Array(order.key.description.utf8),
                    let value = record.value, !verifies || order.record.isIn(cluster: record.cluster)
                else { return nil }
                return try OrderRecord.decode(value)
            }
        }
    }

    private func reader() throws(KafkaError) -> KafkaReader {
        try self.state.withLock { (state) throws(KafkaError) in
            switch state {
            case .open(let reader): return reader
            case .closed: throw KafkaError(.closed, "reading cold orders: closed")
            case .idle:
                let reader = try KafkaReader(ofSingleRecords: self.configuration, patience: Self.patience)
                state = .open(reader)
                return reader
            }
        }
    }

    /// Ends the reads. Calling it again is harmless.
    func close() async {
        let state = self.state.withLock { state in
            defer { state = .closed }
            return state
        }
        if case .open(let reader) = state { await reader.close() }
    }
}
