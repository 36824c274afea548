import CoreMetrics
import Logging
import NIOPosix
public import Redis
public import ServiceLifecycle

/// A monitor that queries the state of the Redis servers every few seconds while a service runs, and reports faults: in
/// the log once when each begins and ends, in metrics, and in readiness if the service asks for that.
public struct RedisMonitor: Service {
    /// The condition of readiness that is unmet while there is a severe fault.
    public static let condition = "redis"
    static let interval = Duration.seconds(5)

    private let redis: RedisClient
    private let readiness: Readiness?
    private let logger: Logger
    private let faults: [(fault: RedisHealth.Fault, gauge: Gauge)]
    private let usedMemory: Gauge
    private let maxMemory: Gauge
    private let interval: Duration

    /// - Parameters:
    ///   - redis: closed by its owner after this has ended.
    ///   - holdsReadiness: true if a severe fault makes the service unready. Not for a service that still serves: a
    ///     load balancer would remove all of its instances at the same time.
    public init(_ redis: RedisClient, _ environment: ServiceEnvironment, holdsReadiness: Bool) {
        self.init(redis, environment, holdsReadiness: holdsReadiness, interval: Self.interval)
    }

    init(_ redis: RedisClient, _ environment: ServiceEnvironment, holdsReadiness: Bool, interval: Duration) {
        let factory = environment.metrics
        self.redis = redis
        self.readiness = holdsReadiness ? environment.readiness : nil
        self.logger = environment.logger
        self.faults = RedisHealth.Fault.allCases.map {
            ($0, Gauge(label: "waybill_redis_fault", dimensions: [("fault", $0.rawValue)], factory: factory))
        }
        self.usedMemory = Gauge(label: "waybill_redis_memory_bytes", factory: factory)
        self.maxMemory = Gauge(label: "waybill_redis_memory_limit_bytes", factory: factory)
        self.interval = interval
    }

    public func run() async throws {
        try? await cancelWhenGracefulShutdown {
            var health = RedisHealth()
            while true {
                await self.look(&health)
                try await Task.sleep(for: self.interval)
            }
        }
    }

    private func look(_ health: inout RedisHealth) async {
        let change: RedisHealth.Change
        do {
            let servers = try await self.redis.information()
            change = health.receive(servers, refusals: self.redis.memoryRefusals, now: .now)
        } catch {
            // A server that cannot be reached says nothing about its memory.
            guard error.code == .unsupported else { return }
            change = health.refused(error.message)
        }
        for fault in change.begun {
            let level: Logger.Level = fault.isSevere ? .error : .warning
            self.logger.log(
                level: level, "Redis fault", metadata: ["fault": "\(fault.rawValue)", "text": "\(health.text(fault))"])
        }
        for fault in change.ended { self.logger.info("Redis fault resolved", metadata: ["fault": "\(fault.rawValue)"]) }
        for (fault, gauge) in self.faults { gauge.record(health.faults[fault] == nil ? 0 : 1) }
        self.usedMemory.record(health.usedMemory)
        self.maxMemory.record(health.maxMemory)
        let severe = RedisHealth.Fault.allCases.filter { $0.isSevere && health.faults[$0] != nil }
        if severe.isEmpty {
            self.readiness?.met(Self.condition)
        } else {
            self.readiness?.unmet(Self.condition, severe.map(health.text).joined(separator: "; "))
        }
    }
}

extension RedisHealth {
    fileprivate func text(_ fault: Fault) -> String { self.faults[fault] ?? "" }
}

extension RedisMonitor {
    /// Prevents a start with a Redis that cannot be relied on. One that does not answer at the moment prevents nothing.
    ///
    /// - Parameter refusesEviction: true if the service writes keys that a policy which evicts any key would delete.
    /// - Throws: `SettingsError` that names the key, the value found and the value to set.
    static func check(_ environment: ServiceEnvironment, refusesEviction: Bool) async throws {
        let configuration = environment.common.redis
        let redis = RedisClient(configuration, eventLoopGroup: environment.group.next())
        let result: Result<[(server: String, information: RedisServerInformation?)], RedisError>
        do { result = .success(try await redis.information()) } catch { result = .failure(error) }
        await redis.close()
        switch result {
        case .failure(let error) where error.code == .unsupported:
            throw SettingsError(.redisURL, value: nil, "\(configuration.host):\(configuration.port): \(error.message)")
        case .failure(let error):
            environment.logger.warning("Redis does not respond yet", metadata: ["error": "\(error)"])
        case .success(let servers):
            guard refusesEviction else { return }
            for (server, information) in servers {
                let sentence = information?.evictionPolicy.flatMap { RedisHealth.evictsAll($0, server) }
                if let sentence { throw SettingsError(.redisURL, value: nil, sentence) }
            }
        }
    }
}
