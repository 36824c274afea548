import Brands
import Foundation
import Model
import TestKit
import Tokens

@testable import Packager

/// One brand with its certificates, made once by the openssl program and kept in memory.
struct BrandFixture: Sendable {
    static let orderType = "order.com.example.shop"
    static let webServiceURL = "https://wallet.example.com"
    static let secretsFile = "a secret of more than sixteen bytes\n"
    static let shared = Result { try BrandFixture() }

    let brand: Brand
    let rootPEM: [UInt8]
    /// The files of a brands directory, by their path in it.
    private let files: [String: [UInt8]]

    private init() throws {
        let directory = try TemporaryDirectory("packager-brand")
        let certificates = try DevelopmentCertificates.copy(to: directory.path("certificates"))
        try DevelopmentBrand.make(
            in: directory.path("brands/shop"), orderType: Self.orderType, certificates: certificates)
        self.brand = try Brand.load(directory: directory.path("brands/shop"), webServiceURL: Self.webServiceURL)
        self.rootPEM = try directory.read("certificates/root.pem")
        var files: [String: [UInt8]] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: directory.path("brands")) {
            let path = directory.path("brands/\(name)")
            let type = try FileManager.default.attributesOfItem(atPath: path)[.type] as? FileAttributeType
            if type == .typeRegular { files[name] = try directory.read("brands/\(name)") }
        }
        self.files = files
    }

    /// Writes the brand into the brands directory, unless it already exists, and returns that path.
    ///
    /// Only once: a packager that is already running may be reading it, and reloads anything that changes.
    func write(into directory: TemporaryDirectory) throws -> String {
        let brands = directory.path("brands")
        if FileManager.default.fileExists(atPath: "\(brands)/shop") { return brands }
        for (name, content) in self.files {
            let url = URL(filePath: "\(brands)/\(name)")
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(content).write(to: url)
        }
        return brands
    }

    static func tokens() throws -> TokenAuthority {
        TokenAuthority(try TokenSecrets(file: Array(Self.secretsFile.utf8)))
    }
}
