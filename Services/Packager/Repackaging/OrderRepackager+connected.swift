import ArgumentParser
import Brands
import Kafka
import Model
import Operations
import Redis
import Store

extension OrderRepackager {
    /// Makes a repackager of a brand's orders with its connections, for a command, and closes them behind `body`.
    ///
    /// - Parameters:
    ///   - isDryRun: true if nothing is written.
    ///   - renewal: the renewal of tokens; nil leaves them as they are.
    /// - Throws: `ValidationError` if the brand does not exist; what `body` throws.
    static func connected<Value: Sendable>(
        to type: OrderTypeIdentifier, _ settings: PackagerSettings, _ environment: ServiceEnvironment,
        isDryRun: Bool = false, renewal: TokenRenewal?,
        _ body: (OrderRepackager, Brand, RedisClient) async throws -> Value
    ) async throws -> Value {
        guard let brand = settings.brands.brands[type] else {
            throw ValidationError(unknownBrand: type, known: settings.brands.brands)
        }
        let common = environment.common
        let redis = RedisClient(common.redis, eventLoopGroup: environment.group)
        let producer = isDryRun ? nil : try KafkaProducer(environment.producing(within: common.shutdownLimit / 2))
        let cold = ColdOrders(environment)
        var packager = OrderPackager(brand, tokens: settings.tokens)
        packager.tokenRenewal = renewal
        var repackager = OrderRepackager(
            topics: common.topics, store: cold.store(ofCompleteView: redis), producer: producer,
            packagers: { [packager] in [type: packager] })
        // Without it, pictures from URLs would count as missing.
        repackager.pictureIndex = PictureIndex(redis: redis, factory: environment.metrics)
        let close = {
            await producer?.close()
            await cold.close()
            await redis.close()
        }
        return try await withCleanup(close) { [repackager] in try await body(repackager, brand, redis) }
    }
}
