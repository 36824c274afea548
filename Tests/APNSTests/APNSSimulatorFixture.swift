import Foundation
import NIOPosix
import Testing

@testable import APNS
@testable import Cryptography
@testable import TestKit

/// A running simulator with certificates, and the clients that talk to it.
struct APNSSimulatorFixture: Sendable {
    static let topic = "order.com.example.shop"
    static let token = String(repeating: "a1", count: 32)

    let simulator: APNSSimulator
    let directory: String

    /// Provides the certificates of a suite and removes them afterwards.
    struct Once: SuiteTrait, TestScoping {
        @TaskLocal static var directory: String?

        @concurrent func provideScope(
            for test: Test, testCase: Test.Case?, performing function: @Sendable @concurrent () async throws -> Void
        ) async throws {
            let directory = FileManager.default.temporaryDirectory.path + "/waybill-apns-\(UUID().uuidString)"
            defer { try? FileManager.default.removeItem(atPath: directory) }
            _ = try DevelopmentCertificates.copy(to: directory)
            try Data("{}".utf8).write(to: URL(fileURLWithPath: directory + "/body"))
            try await Self.$directory.withValue(directory, operation: function)
        }
    }

    /// The output of a client, and the last status it saw; 0 if there was none.
    struct Answer: Sendable {
        var status: Int
        var text: String
    }

    /// Runs `body` with the pusher's client, which has the certificate and trusts the fixture's root, then closes it.
    func withClient(_ body: (APNSClient) async throws -> Void) async throws {
        func read(_ name: String) throws -> [UInt8] {
            try APNSSimulatorConfiguration.read("\(self.directory)/\(name)")
        }
        let client = try APNSClient(
            endpoint: try APNSEndpoint(url: self.simulator.url),
            credential: .certificate(
                chainPEM: try read("certificate.pem") + read("intermediate.pem"), keyPEM: try read("key.pem")),
            rootsPEM: try read("root.pem"), eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            configuration: quickConfiguration())
        let result: Result<Void, any Error>
        do { result = .success(try await body(client)) } catch { result = .failure(error) }
        await client.close()
        try result.get()
    }

    static func run(_ body: @Sendable (APNSSimulatorFixture) async throws -> Void) async throws {
        let directory = try #require(Once.directory)
        var configuration = try APNSSimulatorConfiguration(certificates: directory)
        configuration.providerKeys = [
            try APNSSimulatorProviderKey(
                pem: try APNSSimulatorConfiguration.read(directory + "/provider-key.p8"), keyIdentifier: "KEY1234567",
                team: "TEAM123456")
        ]
        let fixture = Self(simulator: try await APNSSimulator.start(configuration), directory: directory)
        do {
            try await body(fixture)
        } catch {
            await fixture.simulator.stop()
            throw error
        }
        await fixture.simulator.stop()
    }

    /// Posts `{}` with curl, unless the arguments say otherwise.
    func push(
        _ arguments: [String] = [], identity: String? = "certificate.pem", key: String = "key.pem"
    ) async throws -> Answer {
        var all = ["--http2", "--cacert", self.directory + "/root.pem", "-H", "apns-priority: 5"]
        all += ["-H", "apns-push-type: background"]
        if !arguments.contains("-d"), !arguments.contains("-X") { all += ["-d", "{}"] }
        if let identity { all += ["--cert", "\(self.directory)/\(identity)", "--key", "\(self.directory)/\(key)"] }
        return try await self.curl(all + arguments + ["\(self.simulator.url)/3/device/\(Self.token)"])
    }

    /// Sends a request to the admin port.
    func admin(_ path: String, _ arguments: [String] = []) async throws -> Answer {
        try await self.curl(arguments + ["\(self.simulator.adminURL)/\(path)"])
    }

    /// Posts `{}` with nghttp and returns its list of frames, without colors.
    func nghttp(_ arguments: [String], identity: String? = "certificate.pem") async throws -> String {
        var all = ["-v", "-n", "-t", "5s", "-d", self.directory + "/body", "-H", "apns-priority: 5"]
        if let identity { all += ["--cert=\(self.directory)/\(identity)", "--key=\(self.directory)/key.pem"] }
        return try await Self.output(of: "nghttp", all + arguments + ["\(self.simulator.url)/3/device/\(Self.token)"])
            .replacing(/\u{1B}\[[0-9;]*m/, with: "")
    }

    private func curl(_ arguments: [String]) async throws -> Answer {
        let text = try await Self.output(of: "curl", ["-sS", "-m", "30", "-w", "\n%{http_code}"] + arguments)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        // curl writes its own errors after the status.
        let status = lines.reversed().compactMap { $0.count == 3 ? Int($0) : nil }.first ?? 0
        return Answer(status: status, text: text)
    }

    /// Runs a program to its end and returns its output, whatever its exit status.
    private static func output(of program: String, _ arguments: [String]) async throws -> String {
        let child = try ChildProcess(program, arguments)
        try await child.exit(within: .seconds(60))
        return child.output
    }

    /// Returns a provider token signed by the `openssl` program.
    func providerToken(issuedEpochSeconds: Int64) throws -> String {
        let name = self.directory + "/token-\(UUID().uuidString)"
        let header = APNSSimulatorTokenTests.base64URL(#"{"alg":"ES256","kid":"KEY1234567"}"#.utf8)
        let claims = APNSSimulatorTokenTests.base64URL(#"{"iss":"TEAM123456","iat":\#(issuedEpochSeconds)}"#.utf8)
        try Data("\(header).\(claims)".utf8).write(to: URL(fileURLWithPath: name))
        try OpenSSLProgram.run([
            "dgst", "-sha256", "-sign", self.directory + "/provider-key.p8", "-out", name + ".der", name,
        ])
        let signature = try ES256Key.raw(APNSSimulatorConfiguration.read(name + ".der"))
        return "\(header).\(claims).\(APNSSimulatorTokenTests.base64URL(signature))"
    }
}
