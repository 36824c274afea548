import Foundation
import TestKit

/// The gateway as a separate process whose memory can be measured, without Redis and Kafka.
final class GatewayProcess: Sendable {
    let port: Int
    private let child: ChildProcess
    private let directory: TemporaryDirectory
    private let reserved: ReservedPort

    /// - Parameters:
    ///   - reloadSeconds: the interval at which brands and secrets are checked for changes.
    ///   - environment: more variables.
    ///   - log: a pipe with a name that gets its log.
    init(reloadSeconds: Int = 5, environment: [String: String] = [:], log: NamedPipe? = nil) async throws {
        self.directory = try TemporaryDirectory("gateway")
        let certificates = try DevelopmentCertificates.copy(to: self.directory.path("certificates"))
        try DevelopmentBrand.make(
            in: self.directory.path("brands/shop"), orderType: GatewayFixture.orderType, certificates: certificates)
        let secrets = self.directory.path("token-secrets")
        try Data("the only secret of the test\n".utf8).write(to: URL(filePath: secrets))
        self.reserved = try ReservedPort()
        self.port = self.reserved.number
        let program = Program.built("waybill-gateway")
        let nobody = "127.0.0.1:1"
        self.child = try ChildProcess(
            "/bin/sh", ["-c", log == nil ? "exec \"$0\"" : "exec \"$0\" >\"$1\"", program, log?.path ?? ""],
            environment: environment.merging([
                "WAYBILL_LISTEN": "127.0.0.1:\(self.port)", "WAYBILL_OPERATIONS_LISTEN": "127.0.0.1:0",
                "WAYBILL_WEB_SERVICE_URL": "https://wallet.example/apple", "WAYBILL_TOKEN_SECRETS": secrets,
                "WAYBILL_BRANDS": self.directory.path("brands"), "WAYBILL_REDIS_URL": "redis://\(nobody)/0",
                "WAYBILL_KAFKA_BOOTSTRAP": nobody, "WAYBILL_BRANDS_RELOAD_SECONDS": "\(reloadSeconds)",
                "WAYBILL_DRAIN_SECONDS": "0",
            ]) { mine, _ in mine })
        let isListening = { (line: Substring) in line.contains("\"listening\"") && line.contains(":\(self.port)") }
        if let log { try await log.line(where: isListening) } else { try await self.child.line(where: isListening) }
    }

    /// Returns the resident memory in bytes.
    func residentBytes() throws -> Int { try self.child.residentBytes() }

    /// Replaces the secrets file.
    func write(secrets: String) throws { try self.directory.write("token-secrets", secrets) }

    func hangUp() { self.child.signal(SIGHUP) }

    /// Waits for a line of the gateway's log.
    func line(containing text: String) async throws { try await self.child.line(containing: text) }

    func stop() async {
        _ = await self.child.stop()
        self.reserved.release()
    }
}
