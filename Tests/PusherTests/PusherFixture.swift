import APNS
import Foundation
import TestKit

/// Certificates and the brand of the pusher's tests, made once by the openssl program and kept in memory.
struct PusherFixture: Sendable {
    static let orderType = "order.com.example.shop"
    static let shared = Result { try PusherFixture() }

    let rootPEM: [UInt8]
    let credential: APNSCredential
    let simulator: APNSSimulatorConfiguration
    /// The files of a brands directory, by their path in it.
    private let files: [String: [UInt8]]

    private init() throws {
        let directory = try TemporaryDirectory("pusher-brand")
        let certificates = try DevelopmentCertificates.make(
            in: directory.path("certificates"), orderType: Self.orderType)
        try DevelopmentBrand.make(
            in: directory.path("brands/shop"), orderType: Self.orderType, certificates: certificates)
        self.rootPEM = try directory.read("certificates/root.pem")
        self.simulator = try APNSSimulatorConfiguration(certificates: directory.path("certificates"))
        self.credential = .certificate(
            chainPEM: try directory.read("certificates/certificate.pem")
                + directory.read("certificates/intermediate.pem"),
            keyPEM: try directory.read("certificates/key.pem"))
        var files: [String: [UInt8]] = [:]
        for name in ["brand.json", "certificate.pem", "key.pem", "intermediate.pem"] {
            files["shop/\(name)"] = try directory.read("brands/shop/\(name)")
        }
        self.files = files
    }

    /// Writes the brands directory and returns its path.
    func write(into directory: TemporaryDirectory) throws -> String {
        let brands = directory.path("brands")
        for (name, content) in self.files {
            let url = URL(filePath: "\(brands)/\(name)")
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(content).write(to: url)
        }
        return brands
    }
}
