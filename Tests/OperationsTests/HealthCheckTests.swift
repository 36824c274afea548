import Foundation
import NIOCore
import NIOPosix
import TestKit
import TestTraits
import Testing

@testable import Operations

@Suite struct HealthCheckTests {
    private func check(_ address: String, timeout: Duration = .seconds(20)) throws -> HealthCheck {
        try HealthCheck(environment: ["WAYBILL_OPERATIONS_LISTEN": address], timeout: timeout)
    }

    @Test(.server, arguments: ["127.0.0.1", "0.0.0.0", "localhost"])
    func theServiceIsAskedAtTheAddressThatItListensOn(host: String) async throws {
        let readiness = Readiness(conditions: ["redis"])
        try await OperationsServerTests().with(readiness: readiness) { port in
            let check = try self.check("\(host):\(port)")
            var answer = try await check.ask("/readyz")
            #expect(!answer.isHealthy)
            #expect(answer.text == "redis: not yet\n", "from this machine, so with the reasons")
            answer = try await check.ask("/livez")
            #expect(answer.isHealthy)
            #expect(answer.text == "alive\n")
            readiness.met("redis")
            #expect(try await check.ask("/readyz") == HealthCheck.Answer(response: "HTTP/1.1 200 OK\r\n\r\nready\n"))
        }
    }

    @Test(.server, arguments: ["gateway", "packager", "pusher"])
    func everyProgramHasTheCommand(name: String) async throws {
        let readiness = Readiness(conditions: ["redis"])
        let program = Program.built("waybill-\(name)")
        try await OperationsServerTests().with(readiness: readiness) { port in
            func ask(_ options: [String]) async throws -> (ChildProcess.Exit, String) {
                let child = try ChildProcess(
                    program, ["health"] + options, environment: ["WAYBILL_OPERATIONS_LISTEN": "127.0.0.1:\(port)"])
                let exit = try await child.exit(within: .seconds(60))
                return (exit, child.output)
            }
            var answer = try await ask([])
            #expect(answer == (.code(1), "redis: not yet\n"))
            answer = try await ask(["--live"])
            #expect(answer == (.code(0), "alive\n"))
            readiness.met("redis")
            answer = try await ask([])
            #expect(answer == (.code(0), "ready\n"))
        }
    }

    @Test(.server) func aServiceThatDoesNotListenIsNamedWithItsAddress() async throws {
        let port = try ReservedPort()
        let check = try self.check("127.0.0.1:\(port.number)")
        let failure = await #expect(throws: HealthCheck.Failure.self) { try await check.ask("/readyz") }
        #expect(failure?.description.hasPrefix("cannot ask 127.0.0.1:\(port.number): ") == true)
        #expect(failure?.description.contains("Connection refused") == true)
        port.release()
    }

    @Test(.server) func aSilentServiceIsNotWaitedForLongerThanTheLimit() async throws {
        let silent = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(silent.localAddress?.port)
        let check = try self.check("127.0.0.1:\(port)", timeout: .milliseconds(200))
        let failure = await #expect(throws: HealthCheck.Failure.self) { try await check.ask("/readyz") }
        #expect(failure?.description == "127.0.0.1:\(port) gives no HTTP answer within 0.2 seconds")
        try await silent.close()
    }

    @Test func onlyHTTPIsAnAnswer() {
        #expect(HealthCheck.Answer(response: "") == nil)
        #expect(HealthCheck.Answer(response: "SSH-2.0-OpenSSH_9.2\r\n") == nil)
        #expect(HealthCheck.Answer(response: "HTTP/1.1 2x0 OK\r\n\r\n") == nil)
        #expect(HealthCheck.Answer(response: "HTTP/1.1 20")?.isHealthy == nil)
        #expect(HealthCheck.Answer(response: "HTTP/1.1 404 Not Found\r\nA: b\r\n\r\nno\n")?.text == "no\n")
    }

    @Test func theWildcardAddressesAreReachedThroughLoopback() throws {
        #expect(try self.check("0.0.0.0:9090").address.description == "127.0.0.1:9090")
        #expect(try self.check("[::]:9090").address.description == "[::1]:9090")
        #expect(try self.check("10.1.2.3:9090").address.description == "10.1.2.3:9090")
    }

    @Test func theAddressComesFromTheSameSettingsAsThatOfTheService() throws {
        #expect(try HealthCheck(environment: [:], timeout: .seconds(1)).address.description == "127.0.0.1:9470")
        let directory = try TemporaryDirectory("health")
        let file = try directory.write("waybill.json", #"{"WAYBILL_OPERATIONS_LISTEN": "127.0.0.1:9191"}"#)
        // Required keys and wrong values of other keys are the service's affair.
        let environment = ["WAYBILL_CONFIG": file, "WAYBILL_LOG_LEVEL": "loud"]
        #expect(
            try HealthCheck(environment: environment, timeout: .seconds(1)).address.description == "127.0.0.1:9191")
        #expect(throws: SettingsError.self) { try self.check("9090") }
        #expect(throws: SettingsError.self) { try self.check("127.0.0.1:0") }
    }
}
