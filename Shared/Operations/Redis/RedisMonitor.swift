import CoreMetrics
import Logging
import NIOPosix
public import Redis
public import ServiceLifecycle

/// A monitor that queries the state of the Redis servers every few seconds while a service runs, and reports faults: in
/// the log once when each begins and ends, in metrics, and as a remark in `/readyz`.
public struct RedisMonitor: Service {
    /// The name of the upstream.
    static let name = "redis"
    static let interval = Duration.seconds(5)

    private let redis: RedisClient
    private let upstream: UpstreamState
    private let logger: Logger
    private let faults: [(fault: RedisHealth.Fault, gauge: Gauge)]
    private let usedMemory: Gauge
    private let maxMemory: Gauge
    private let interval: Duration

    /// - Parameter redis: closed by its owner after this has ended.
    public init(_ redis: RedisClient, _ environment: ServiceEnvironment) {
        self.init(redis, environment, interval: Self.interval)
    }

    init(_ redis: RedisClient, _ environment: ServiceEnvironment, interval: Duration) {
        let factory = environment.metrics
        self.redis = redis
        self.upstream = environment.upstream(Self.name)
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
            guard error.code == .unsupported else { return self.upstream.report("\(error)") }
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
        self.upstream.report(nil, remark: severe.isEmpty ? nil : severe.map(health.text).joined(separator: "; "))
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
