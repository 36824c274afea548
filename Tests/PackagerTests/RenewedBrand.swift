import Brands
import Foundation
import Model
import TestKit

/// A brand's directory under one authority, whose certificate and files tests renew.
final class RenewedBrand: Sendable {
    let directory: TemporaryDirectory
    /// The directory of brands.
    var brands: String { self.directory.path("brands") }
    var path: String { self.directory.path("brands/shop") }
    var root: String { self.directory.path("certificates/root.pem") }

    /// The files that each brand begins with. Making keys takes a processor a second: if all tests made their own at
    /// the same time, they would delay tests that wait for answers.
    private static let template = Result {
        let directory = try TemporaryDirectory("brand-template")
        let certificates = try DevelopmentCertificates.copy(to: directory.path("certificates"))
        try DevelopmentBrand.make(
            in: directory.path("brands/shop"), orderType: BrandFixture.orderType, certificates: certificates)
        return directory
    }

    init() throws {
        let template = try Self.template.get()
        self.directory = try TemporaryDirectory("renewed-brand")
        for name in ["certificates", "brands"] {
            try FileManager.default.copyItem(atPath: template.path(name), toPath: self.directory.path(name))
        }
    }

    func load() throws -> Brand {
        try Brand.load(directory: self.path, webServiceURL: BrandFixture.webServiceURL)
    }

    /// Returns the certificate as it is in PEM files, without the text around it.
    func certificate() throws -> String {
        let text = String(decoding: try self.directory.read("brands/shop/certificate.pem"), as: UTF8.self)
        guard let start = text.range(of: "-----BEGIN CERTIFICATE-----"),
            let end = text.range(of: "-----END CERTIFICATE-----")
        else { return "none" }
        return String(text[start.lowerBound..<end.upperBound])
    }

    /// Puts a new certificate with a new key in place, from the same authority.
    func renewCertificate() throws {
        let folder = self.directory.path("renewed-\(UUID().uuidString.prefix(8))")
        let renewed = try DevelopmentCertificates.make(
            in: folder, .init(orderType: BrandFixture.orderType, authority: self.directory.path("certificates")))
        try Data(contentsOf: URL(filePath: renewed.certificate)).write(
            to: URL(filePath: "\(self.path)/certificate.pem"))
        try Data(contentsOf: URL(filePath: renewed.key)).write(to: URL(filePath: "\(self.path)/key.pem"))
    }

    func write(asset name: String, _ content: [UInt8]) throws {
        try Data(content).write(to: URL(filePath: "\(self.path)/assets/\(name)"))
    }

    func remove(asset name: String) throws {
        try FileManager.default.removeItem(atPath: "\(self.path)/assets/\(name)")
    }

    /// Gives the brand other defaults, or none.
    func write(defaults: JSON) throws { try self.write("defaults", defaults) }

    /// Lets the brand's orders be removed some days after their end.
    func write(endedDays: Int64) throws { try self.write("retention", ["endedDays": .integer(endedDays)]) }

    /// Lets the brand's pictures come from some hosts.
    func write(
        pictureHosts: [String], ignoreQuery: JSON = false, fit: Bool = false, background: String? = nil
    ) throws {
        var pictures: JSONObject = [
            "hosts": .array(pictureHosts.map { .string($0) }), "ignoreQuery": ignoreQuery, "fit": .bool(fit),
        ]
        pictures["background"] = background.map { .string($0) }
        try self.write("pictures", .object(pictures))
    }

    /// Lets the brand's orders have own documents; the file of the secret, if it names one, is `authorization`.
    func write(documents: JSONObject) throws {
        try Data("Bearer secret\n".utf8).write(to: URL(filePath: "\(self.path)/authorization"))
        try self.write("documents", .object(documents))
    }

    private func write(_ member: String, _ value: JSON) throws {
        var json: JSONObject = [
            "orderTypeIdentifier": .string(BrandFixture.orderType), "certificate": "certificate.pem",
            "key": "key.pem", "intermediate": "intermediate.pem", "push": ["authentication": "certificate"],
        ]
        json[member] = value
        try Data(JSON.object(json).serialized).write(to: URL(filePath: "\(self.path)/brand.json"))
    }
}
