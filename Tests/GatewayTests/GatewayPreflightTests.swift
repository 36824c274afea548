import Foundation
import Model
import TestKit
import TestTraits
import Testing

@testable import Gateway
@testable import Operations

/// The check before a start of the role for Wallet, in environments of which each has a fault.
@Suite(.server) struct GatewayPreflightTests {
    /// The factor of the check's time limits: other tests keep the machine busy.
    static let patience = 10

    private static var files: [CheckFault] {
        CheckFault.files + CheckFault.tokens + CheckFault.edge + [
            CheckFault("configuration", "must be host:port", "WAYBILL_LISTEN", set: "LISTEN", "127.0.0.1:99999"),
            CheckFault(
                "configuration", "tokens are sent unencrypted", "correct it", isWarning: true, set: "LISTEN",
                "0.0.0.0:8080"),
            CheckFault("configuration", "must be a whole number", "DEVICES_PER_ORDER", set: "DEVICES_PER_ORDER", "0"),
        ]
    }

    @Test func eachFaultOfFilesIsNamedWithItsFixWithoutANetwork() async throws {
        for fault in Self.files {
            let environment = try CheckedEnvironment()
            try await fault.cause(in: environment)
            let report = await GatewayServer.preflight(environment.variables, isOffline: true)
            #expect(fault.difference(from: report.json, exitCode: report.exitCode) == nil)
        }
    }

    @Test(.timeLimit(.minutes(3)))
    func eachFaultOfServersIsNamedWithItsFix() async throws {
        let redis = try await RedisServer.startAlone(["--maxmemory", "100mb"])
        let kafka = try await ScriptedKafka.start([:])
        let faults =
            [CheckFault.noBroker] + CheckFault.topic("waybill.registrations", isCompacted: true, isLarge: false)
            + CheckFault.redis(redis)
        for fault in faults {
            let environment = try CheckedEnvironment(kafka: kafka.bootstrap, redis: redis.url)
            try await CheckFault.reset(redis)
            try await fault.cause(in: environment)
            try kafka.tell(environment.topics)
            let report = await GatewayServer.preflight(
                environment.variables, isOffline: false, patience: Self.patience)
            #expect(fault.difference(from: report.json, exitCode: report.exitCode) == nil)
        }
        await kafka.stop()
        await redis.stop()
    }

    /// API key 22 is InitProducerId, and 31 the refusal of it.
    @Test(.timeLimit(.minutes(1))) func aUserWhoMayWriteToNoTopicIsFound() async throws {
        let redis = try await RedisServer.startAlone(["--maxmemory", "100mb"])
        let broker = try KafkaBroker(topics: [.init("waybill.registrations", partitions: 1)])
        try broker.fail(apiKey: 22, with: Array(repeating: 31, count: 200))
        let environment = try CheckedEnvironment(kafka: broker.bootstrap, redis: redis.url)
        let report = await GatewayServer.preflight(environment.variables, isOffline: false, patience: Self.patience)
        let fault = CheckFault("kafka", "no topic may be written to", "grant Write on topic waybill.registrations") {
            _ in
        }
        #expect(fault.difference(from: report.json, exitCode: report.exitCode) == nil)
        await redis.stop()
    }

    @Test(.timeLimit(.minutes(1)))
    func theProgramPassesAGoodEnvironmentAndNamesFiveFaultsAtOnce() async throws {
        let redis = try await RedisServer.startAlone(["--maxmemory", "100mb"])
        let kafka = try await ScriptedKafka.start([:])
        let environment = try CheckedEnvironment(kafka: kafka.bootstrap, redis: redis.url)
        try kafka.tell(environment.topics)
        let good = try await CheckedProgram.run("waybill-gateway", ["check", "--json"], environment)
        #expect(good.exit == .code(0), "\(good.text)")
        #expect(good.areas("faults") == [])

        environment.variables["WAYBILL_LISTEN"] = "8080"
        environment.variables["WAYBILL_TRUSTED_PROXIES"] = "everybody"
        environment.variables["WAYBILL_REDIS_URL"] = "redis://127.0.0.1:1"
        environment.topics["waybill.registrations"]?.settings?["cleanup.policy"] = "delete"
        try kafka.tell(environment.topics)
        try environment.write("brands/shop/key.pem", "nonsense")
        let five = try await CheckedProgram.run("waybill-gateway", ["check", "--json"], environment)
        #expect(five.areas("faults") == ["brands", "configuration", "configuration", "kafka", "redis"], "\(five.text)")
        #expect(five.hasFixes)
        #expect(five.exit == .code(78))
        await kafka.stop()
        await redis.stop()
    }
}
