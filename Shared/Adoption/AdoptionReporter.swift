import FoundationEssentials
import Logging
import Model
public import Operations
import Redis
public import ServiceLifecycle
import Store

/// Adds what a process has counted to Redis, every few seconds and when it stops.
///
/// A process that is killed loses what it counted since: seconds of its own. Counts that Redis did not answer are added
/// again, so it may count twice.
/// Owner: this object owns a client of its own, which outlives the service that counts if this one is started first.
public struct AdoptionReporter: Service {
    /// The time between two additions.
    public static let interval = Duration.seconds(10)

    private let tally: AdoptionTally
    private let redis: RedisClient
    private let logger: Logger
    private let interval: Duration

    /// - Parameter interval: another one for tests.
    public init(_ tally: AdoptionTally, _ environment: ServiceEnvironment, interval: Duration = Self.interval) {
        self.tally = tally
        self.redis = RedisClient(environment.redis, eventLoopGroup: environment.group)
        self.logger = environment.logger
        self.interval = interval
    }

    public func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while true {
                try await Task.sleep(for: self.interval)
                await self.report()
            }
        }
        await self.report()
        await self.close()
    }

    func close() async { await self.redis.close() }

    func report() async {
        let now = Int64(Date().timeIntervalSince1970)
        let taken = self.tally.take(day: AdoptionKey.day(epochSeconds: now))
        guard !taken.isEmpty else { return }
        do {
            try await AdoptionTotals(redis: self.redis).add(taken)
        } catch {
            self.tally.putBack(taken)
            // Redis reports its own outages.
            self.logger.debug("cannot add up adoption", metadata: ["error": "\(error)"])
        }
    }
}
