import Foundation

/// An environment in which the `check` of each program finds no fault, and what a test breaks in it.
public final class CheckedEnvironment {
    public static let orderType = DevelopmentCertificates.commonOrderType

    /// Has `certificates`, the directory `brands` with the brand `shop`, and `token-secrets`.
    public let directory: TemporaryDirectory
    /// The variables of the program.
    public var variables: [String: String]
    /// The scripted answers of Kafka.
    public var topics: [String: ScriptedKafka.Topic]
    /// Servers of one fault, which live as long as the environment.
    public var servers: [AnyObject] = []

    /// - Parameters:
    ///   - kafka: `host:port`.
    ///   - redis: a URL.
    public init(kafka: String = "127.0.0.1:1", redis: String = "redis://127.0.0.1:1") throws {
        self.directory = try TemporaryDirectory("checked")
        let certificates = try DevelopmentCertificates.copy(to: self.directory.path("certificates"))
        try DevelopmentBrand.make(
            in: self.directory.path("brands/shop"), orderType: Self.orderType, certificates: certificates)
        let secrets = try self.directory.write("token-secrets", "b7c1d0a9e4f23586b7c1d0a9e4f23586\n")
        self.variables = [
            "WAYBILL_BRANDS": self.directory.path("brands"), "WAYBILL_TOKEN_SECRETS": secrets,
            "WAYBILL_WEB_SERVICE_URL": "https://wallet.example/apple", "WAYBILL_KAFKA_BOOTSTRAP": kafka,
            "WAYBILL_REDIS_URL": redis,
        ]
        func topic(_ policy: String) -> ScriptedKafka.Topic {
            .init(settings: ["cleanup.policy": policy, "min.insync.replicas": "2", "max.message.bytes": "4194304"])
        }
        self.topics = [
            "waybill.orders": topic("compact"), "waybill.registrations": topic("compact"),
            "waybill.push-pending": topic("compact"), "waybill.order-changes": topic("delete"),
            "waybill.dead-letters": topic("delete"),
        ]
        for path in [secrets, self.directory.path("brands/shop/key.pem")] { try Self.permit(path, 0o600) }
    }

    /// Sets the rights of a file.
    public static func permit(_ path: String, _ rights: Int) throws {
        try FileManager.default.setAttributes([.posixPermissions: rights], ofItemAtPath: path)
    }

    /// Writes a file that only its owner may read, and returns its path.
    @discardableResult
    public func write(_ name: String, _ text: String) throws -> String {
        let folder = URL(filePath: self.directory.path(name)).deletingLastPathComponent()
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let path = try self.directory.write(name, text)
        try Self.permit(path, 0o600)
        return path
    }

    /// Gives the brand a certificate with its key, of the same authority.
    ///
    /// - Parameter hasKey: false to keep the former key.
    public func renewBrand(_ options: DevelopmentCertificates.Options, hasKey: Bool = true) throws {
        var options = options
        options.authority = self.directory.path("certificates")
        let made = try DevelopmentCertificates.make(in: self.directory.path("renewed"), options)
        try self.write("brands/shop/certificate.pem", String(contentsOfFile: made.certificate, encoding: .utf8))
        if hasKey { try self.write("brands/shop/key.pem", String(contentsOfFile: made.key, encoding: .utf8)) }
    }
}
