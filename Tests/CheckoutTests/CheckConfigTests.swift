import Foundation
import TestKit
import TestTraits
import Testing

/// `--check-config` of both roles, each a process that must end without a server.
@Suite(.server) struct CheckConfigTests {
    @Test(
        .timeLimit(.minutes(1)),
        arguments: [
            (["--check-config"], "WAYBILL_LISTEN=127.0.0.1:8080"),
            (["checkout", "--check-config"], "WAYBILL_CHECKOUT_LISTEN=127.0.0.1:8085"),
            (["--check-config", "checkout"], "WAYBILL_CHECKOUT_LISTEN=127.0.0.1:8085"),
        ])
    func theRoleThatIsNamedPrintsItsConfigurationAndExits(arguments: [String], line: String) async throws {
        let directory = try TemporaryDirectory("check-config")
        try directory.write("token-secrets", CheckoutFixture.secretsText)
        let child = try ChildProcess(
            Program.built("waybill-gateway"), arguments,
            environment: [
                "WAYBILL_WEB_SERVICE_URL": "https://wallet.example/apple",
                "WAYBILL_TOKEN_SECRETS": directory.path("token-secrets"),
                "WAYBILL_BRANDS": try CheckoutFixture.brands.get().path("brands"),
            ])
        #expect(try await child.exit(within: .seconds(20)) == .code(0))
        #expect(child.output.split(separator: "\n").contains(Substring(line)))
    }

    /// Another start would end in the same way: EX_CONFIG tells systemd not to try.
    @Test(
        .timeLimit(.minutes(1)),
        arguments: [
            ("waybill-gateway", []), ("waybill-gateway", ["checkout"]), ("waybill-packager", []),
            ("waybill-packager", ["ingest"]), ("waybill-packager", ["expire"]), ("waybill-pusher", []),
        ] as [(String, [String])])
    func aRefusedConfigurationEndsTheProgramWith78(program: String, role: [String]) async throws {
        let directory = try TemporaryDirectory("refused")
        try directory.write("unknown.json", #"{"WAYBILL_BRAND": "x"}"#)
        let path = Program.built(program)
        for (variable, value, said) in [
            ("WAYBILL_CONFIG", directory.path("unknown.json"), "unknown key"),
            ("WAYBILL_CONFIG", directory.path("none.json"), "No such file"),
            ("WAYBILL_LOG_LEVEL", "loud", "WAYBILL_LOG_LEVEL=loud"),
            ("WAYBILL_KAFKA_PROPERTIES", directory.path("none"), "WAYBILL_KAFKA_PROPERTIES"),
        ] {
            let child = try ChildProcess(path, role, environment: [variable: value])
            #expect(try await child.exit(within: .seconds(20)) == .code(78), "\(variable)=\(value): \(child.output)")
            #expect(child.output.contains("Error: "))
            #expect(child.output.contains(said), "\(child.output)")
        }
    }
}
