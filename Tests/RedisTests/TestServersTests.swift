import TestKit
import TestTraits
import Testing

@Suite struct TestServersTests {
    @Test(.disabled(if: TestServers.areAllowed, "only a pure run refuses servers"))
    func aPureRunRefusesServers() async {
        await #expect(throws: TestServers.Refusal.self) { try await RedisServer.start() }
        await #expect(throws: TestServers.Refusal.self) { try await RedisServer.shared() }
        await #expect(throws: TestServers.Refusal.self) { try await KafkaBroker.shared() }
        #expect(throws: TestServers.Refusal.self) { try KafkaBroker() }
        #expect(throws: TestServers.Refusal.self) { try ChildProcess("true") }
        await #expect(throws: TestServers.Refusal.self) { try await FakeServer.start { _ in .closed } }
        await #expect(throws: TestServers.Refusal.self) { try await RawConnection.open(port: 1) }
    }

    @Test(.server) func aPureRunSkipsTestsWithTheTrait() async throws {
        let tests = try ChildProcess(
            CommandLine.arguments[0],
            ["--testing-library", "swift-testing", "--filter", "^RedisTests\\.TestServersTests"],
            environment: ["WAYBILL_TEST_PURE": "1"])
        #expect(try await tests.exit(within: .seconds(60)) == .code(0), "\(tests.output)")
        #expect(tests.output.contains("aPureRunSkipsTestsWithTheTrait() skipped: \"a pure run has no servers\""))
        #expect(tests.output.contains("aPureRunRefusesServers() passed"))
    }
}
