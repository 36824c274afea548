import Brands
import Foundation
import Operations
import TestKit
import Testing

@Suite struct BrandSettingsTests {
    @Test func secretsAreRequired() throws {
        let settings = try Settings(environment: [:])
        #expect(throws: SettingsError.self) { _ = try settings.tokens(BrandLibrary(Brands([]))) }
    }

    @Test func aWorldReadableSecretsFileGivesAWarning() throws {
        let directory = try TemporaryDirectory("settings")
        let secrets = try directory.write("secrets", String(repeating: "0123456789abcdef", count: 4))
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: secrets)
        let settings = try Settings(environment: ["WAYBILL_TOKEN_SECRETS": secrets])
        _ = try settings.tokens(BrandLibrary(Brands([])))
        #expect(settings.warnings.count == 1)
    }

    @Test func aWeakSecretGivesAWarningWithItsLine() throws {
        let directory = try TemporaryDirectory("settings")
        let secrets = try directory.write(
            "secrets", "\(String(repeating: "0123456789abcdef", count: 4))\nhunter2hunter2hunter2\n")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: secrets)
        let settings = try Settings(environment: ["WAYBILL_TOKEN_SECRETS": secrets])
        _ = try settings.tokens(BrandLibrary(Brands([])))
        #expect(settings.warnings.count == 1)
        #expect(settings.warnings.allSatisfy { $0.contains("line 2") })
        #expect(settings.warnings.allSatisfy { $0.contains("openssl rand -hex 32") && !$0.contains("hunter2") })
    }

    @Test func eachWorldReadableBrandKeyGivesAWarning() throws {
        let directory = try TemporaryDirectory("settings")
        let type = "order.com.example.shop"
        let certificates = try DevelopmentCertificates.make(in: directory.path("certificates"), orderType: type)
        let folder = directory.path("brands/shop")
        try DevelopmentBrand.make(in: folder, orderType: type, certificates: certificates)
        let keys = BrandLibrary.keyFiles(in: directory.path("brands"))
        #expect(!keys.isEmpty)
        #expect(keys.allSatisfy { $0.hasPrefix("\(folder)/") })
        for (mode, count) in [(0o600, 0), (0o644, keys.count)] {
            for key in keys {
                try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: key)
            }
            let settings = try Settings(environment: [:])
            _ = try settings.brands(in: directory.path("brands"), webServiceURL: "https://wallet.example")
            #expect(settings.warnings.count == count)
        }
    }
}
