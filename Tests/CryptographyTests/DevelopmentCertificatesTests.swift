import Foundation
import TestKit
import Testing

@Suite struct DevelopmentCertificatesTests {
    @Test func theChainVerifiesAndPrivateKeysAreForTheOwnerOnly() throws {
        let directory = FileManager.default.temporaryDirectory.path + "/waybill-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let made = try DevelopmentCertificates.make(in: directory, orderType: "order.com.example.shop")

        try OpenSSLProgram.run([
            "verify", "-CAfile", made.root, "-untrusted", made.intermediate, "-purpose", "sslclient", made.certificate,
        ])
        try OpenSSLProgram.run([
            "verify", "-CAfile", made.root, "-purpose", "sslserver", "-verify_ip", "127.0.0.1", made.serverCertificate,
        ])
        let text = try OpenSSLProgram.run(["x509", "-in", made.certificate, "-noout", "-text"])
        #expect(text.contains("UID = order.com.example.shop"))
        #expect(text.contains("OU = TEAM123456"))
        #expect(text.contains("1.2.840.113635.100.4.19"))
        #expect(text.contains("1.2.840.113635.100.14.2"))
        let provider = try OpenSSLProgram.run(["pkey", "-in", made.providerKey, "-noout", "-text"])
        #expect(provider.contains("P-256"))
        for key in [made.key, made.providerKey, made.serverKey, directory + "/root-key.pem"] {
            let mode = try FileManager.default.attributesOfItem(atPath: key)[.posixPermissions] as? Int
            #expect(mode == 0o600, "\(key)")
        }
        let names = try FileManager.default.contentsOfDirectory(atPath: directory)
        #expect(!names.contains { $0.hasPrefix(".work") || $0 == "server.pem" })
    }

    @Test func certificatesHaveTheGivenValidity() throws {
        let directory = FileManager.default.temporaryDirectory.path + "/waybill-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let made = try DevelopmentCertificates.make(
            in: directory,
            .init(
                orderType: "order.com.example.shop", notBeforeEpochSeconds: 1_600_000_000,
                notAfterEpochSeconds: 1_700_000_000))
        let dates = try OpenSSLProgram.run(["x509", "-in", made.certificate, "-noout", "-dates"])
        #expect(dates.contains("notBefore=Sep 13 12:26:40 2020 GMT"))
        #expect(dates.contains("notAfter=Nov 14 22:13:20 2023 GMT"))
    }

    @Test func wrongOptionsAreRefusedWithTheirValue() throws {
        #expect(throws: DevelopmentCertificatesError.self) {
            try DevelopmentCertificates.make(in: "/nonexistent", orderType: "shop/../x")
        }
        #expect(throws: DevelopmentCertificatesError.self) {
            try DevelopmentCertificates.make(in: "/nonexistent", orderType: "order.com.shop", team: "short")
        }
    }
}
