import Glibc
import NIOPosix
import Redis

/// The part of the check about Redis: version, memory policy, persistence, replicas, scripts, and its clock.
struct RedisPreflight: Sendable {
    /// The difference of two clocks, in seconds, from which it is a risk, and from which it is a fault.
    static let (clockRisk, clockFault) = (Int64(5), Int64(60))

    private let environment: ServiceEnvironment
    private let patience: Int

    init(_ environment: ServiceEnvironment, patience: Int) {
        self.environment = environment
        self.patience = patience
    }

    func findings() async -> [PreflightFinding] {
        var configuration = self.environment.common.redis
        configuration.commandDeadline = .seconds(2) * self.patience
        let redis = RedisClient(configuration, eventLoopGroup: self.environment.group.next())
        let findings: [PreflightFinding]
        do throws(RedisError) {
            let servers = try await redis.information()
            findings = Self.judge(servers) + (await self.scripts(redis)) + (await self.clock(redis))
        } catch {
            let fix =
                error.code == .unsupported
                ? "install Redis \(RedisServerInformation.needed) or later"
                : "start Redis, or correct \(SettingKey.redisURL.rawValue), the password, or the firewall"
            findings = [
                PreflightFinding(.redis, "\(configuration.host):\(configuration.port): \(error.message)", fix: fix)
            ]
        }
        await redis.close()
        return findings
    }

    static func judge(_ servers: [(server: String, information: RedisServerInformation?)]) -> [PreflightFinding] {
        var health = RedisHealth()
        _ = health.receive(servers, refusals: 0, now: .now)
        var findings = RedisHealth.Fault.allCases.compactMap { fault in
            health.faults[fault].map {
                PreflightFinding(.redis, fault.isSevere ? .fault : .warning, $0, fix: Self.fix(fault))
            }
        }
        for (server, information) in servers {
            guard let information else { continue }
            if information.maxMemory == 0 {
                findings.append(
                    PreflightFinding(
                        .redis, .warning,
                        "maxmemory is not set at \(server): the system ends a Redis that grows too large",
                        fix: "set maxmemory below the machine's memory, and maxmemory-policy noeviction"))
            }
            if information.hasAppendOnlyFile == false {
                findings.append(
                    PreflightFinding(
                        .redis, .warning,
                        "\(server) keeps no append-only file: each restart restores it from Kafka",
                        fix: "set appendonly yes, or leave it if that is intended"))
            }
            if information.replicas == 0 {
                findings.append(
                    PreflightFinding(
                        .redis, .warning, "\(server) has no replica: packages are not served while it is away",
                        fix: "add a replica, or leave it if that is intended"))
            }
        }
        return findings
    }

    private static func fix(_ fault: RedisHealth.Fault) -> String {
        switch fault {
        case .full: "raise maxmemory, or remove orders"
        case .evictsAll, .evictsExpiring: "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf"
        case .historyHidden: "allow the user +info, or use a service that does not hide it"
        case .unsupported: "install Redis \(RedisServerInformation.needed) or later"
        }
    }

    /// Orders are written by scripts.
    private func scripts(_ redis: RedisClient) async -> [PreflightFinding] {
        do throws(RedisError) {
            _ = try await redis.send(RedisCommand("EVAL", "return 1", .integer(0)))
            return []
        } catch {
            return [
                PreflightFinding(
                    .redis, "scripts are refused: \(error.message)", fix: "allow the user +eval +evalsha +script|load")
            ]
        }
    }

    private func clock(_ redis: RedisClient) async -> [PreflightFinding] {
        guard let time = try? await redis.send(RedisCommand("TIME")), let seconds = time.array?.first?.integer else {
            return []
        }
        return Self.clock(ofRedis: seconds, nowEpochSeconds: Int64(Glibc.time(nil)))
    }

    static func clock(ofRedis seconds: Int64, nowEpochSeconds now: Int64) -> [PreflightFinding] {
        let (difference, overflow) = seconds.subtractingReportingOverflow(now)
        guard overflow || difference.magnitude > self.clockRisk.magnitude else { return [] }
        let isFault = overflow || difference.magnitude > self.clockFault.magnitude
        return [
            PreflightFinding(
                .clocks, isFault ? .fault : .warning,
                "Redis' clock is \(difference.magnitude) s \(difference > 0 ? "ahead of" : "behind") this machine's",
                fix: "let both machines set their clocks by NTP (timedatectl, chronyc tracking)")
        ]
    }
}
