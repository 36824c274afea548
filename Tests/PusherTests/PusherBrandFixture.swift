import APNS
import Foundation
import TestKit

/// Certificates and the brand of the pusher's tests, made once by the openssl program and kept in memory.
struct PusherBrandFixture: Sendable {
    static let orderType = "order.com.example.shop"
    /// The order type of a second brand.
    static let otherType = "order.com.example.market"
    static let shared = Result { try PusherBrandFixture() }

    let rootPEM: [UInt8]
    let credential: APNSCredential
    /// A `.p8` file.
    let providerKey: [UInt8]
    let simulator: APNSSimulatorConfiguration
    /// The files of a brands directory, by their path in it.
    private let files: [String: [UInt8]]

    private init() throws {
        let directory = try TemporaryDirectory("pusher-brand")
        let certificates = try DevelopmentCertificates.copy(to: directory.path("certificates"))
        try DevelopmentBrand.make(
            in: directory.path("brands/shop"), orderType: Self.orderType, certificates: certificates)
        self.rootPEM = try directory.read("certificates/root.pem")
        self.providerKey = try directory.read("certificates/provider-key.p8")
        self.simulator = try APNSSimulatorConfiguration(certificates: directory.path("certificates"))
        self.credential = .certificate(
            chainPEM: try directory.read("certificates/certificate.pem")
                + directory.read("certificates/intermediate.pem"),
            keyPEM: try directory.read("certificates/key.pem"))
        let others = try DevelopmentCertificates.make(
            in: directory.path("others"),
            .init(orderType: Self.otherType, authority: directory.path("certificates")))
        try DevelopmentBrand.make(
            in: directory.path("brands/market"), orderType: Self.otherType, certificates: others)
        let renewed = try DevelopmentCertificates.make(
            in: directory.path("renewed"),
            .init(orderType: Self.otherType, authority: directory.path("certificates")))
        try DevelopmentBrand.make(
            in: directory.path("brands/renewed"), orderType: Self.otherType, certificates: renewed)
        var files: [String: [UInt8]] = [:]
        for brand in ["shop", "market", "renewed"] {
            for name in ["brand.json", "certificate.pem", "key.pem", "intermediate.pem"] {
                files["\(brand)/\(name)"] = try directory.read("brands/\(brand)/\(name)")
            }
        }
        self.files = files
    }

    /// Writes the brands directory and returns its path.
    ///
    /// - Parameter names: the brands: `shop`, and `market` or `renewed`, which is the same with another certificate.
    func write(_ names: [String] = ["shop"], into directory: TemporaryDirectory) throws -> String {
        let brands = directory.path("brands")
        try FileManager.default.createDirectory(atPath: brands, withIntermediateDirectories: true)
        for (name, content) in self.files where names.contains(where: { name.hasPrefix("\($0)/") }) {
            let url = URL(filePath: "\(brands)/\(name.replacing("renewed/", with: "market/"))")
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(content).write(to: url)
        }
        return brands
    }
}
