import Cryptography
import Foundation
import TestKit
import Testing

@Suite struct SigningTests {
    let manifest = Array("{\"order.json\":\"00\"}".utf8)
    /// 2025-03-05T16:02:11Z
    let moment: Int64 = 1_741_190_531

    private func verify(_ chain: Chain, _ signature: [UInt8], _ content: [UInt8]) throws {
        try OpenSSLProgram.run([
            "cms", "-verify", "-inform", "DER", "-in", chain.write(signature, "signature"), "-content",
            chain.write(content, "manifest.json"), "-binary", "-CAfile", chain.certificates.root, "-purpose", "any",
            "-out", "/dev/null",
        ])
    }

    @Test func opensslAcceptsASignatureAndRefusesOtherContent() throws {
        try Chain.with { chain in
            let identity = try chain.identity()
            for content in [self.manifest, [], [UInt8](repeating: 0x0A, count: 100_000)] {
                try self.verify(chain, identity.sign(content, signingEpochSeconds: self.moment), content)
            }
            let signature = try identity.sign(self.manifest, signingEpochSeconds: self.moment)
            #expect(throws: ProgramError.self) {
                try self.verify(chain, signature, self.manifest + [0x20])
            }
        }
    }

    @Test func theSignatureHasTimeDigestAndBothCertificates() throws {
        try Chain.with { chain in
            let signature = try chain.identity().sign(self.manifest, signingEpochSeconds: self.moment)
            let printed = try OpenSSLProgram.run([
                "cms", "-cmsout", "-print", "-inform", "DER", "-in", chain.write(signature, "signature"),
            ])
            #expect(printed.contains("UTCTIME:Mar  5 16:02:11 2025 GMT"))
            #expect(printed.contains("signingTime"))
            #expect(printed.contains("messageDigest"))
            #expect(printed.contains("contentType (1.2.840.113549.1.9.3)"))
            #expect(printed.contains("sha256WithRSAEncryption"))
            #expect(printed.contains("eContent: <ABSENT>"))
            #expect(printed.components(separatedBy: "d.certificate:").count == 3)
        }
    }

    /// libcrypto reads the structure and writes it again, so that any slip in order or length shows.
    @Test func theStructureIsDER() throws {
        try Chain.with { chain in
            let signature = try chain.identity().sign(self.manifest, signingEpochSeconds: self.moment)
            let again = chain.directory + "/again"
            try OpenSSLProgram.run([
                "cms", "-cmsout", "-inform", "DER", "-in", chain.write(signature, "signature"), "-outform", "DER",
                "-out", again,
            ])
            #expect(try bytes(again) == signature)
        }
    }

    @Test func timesBeyond2049AreGeneralized() throws {
        try Chain.with { chain in
            let identity = try chain.identity()
            for (moment, shown) in [
                (2_524_607_999, "UTCTIME:Dec 31 23:59:59 2049"),
                (2_524_608_000, "GENERALIZEDTIME:Jan  1 00:00:00 2050"),
                (951_782_400, "UTCTIME:Feb 29 00:00:00 2000"), (-1, "UTCTIME:Dec 31 23:59:59 1969"),
                (Int64.max, "GENERALIZEDTIME:Dec 31 23:59:59 9999"),
            ] {
                let signature = try identity.sign(self.manifest, signingEpochSeconds: moment)
                try self.verify(chain, signature, self.manifest)
                let printed = try OpenSSLProgram.run([
                    "cms", "-cmsout", "-print", "-inform", "DER", "-in", chain.write(signature, "signature"),
                ])
                #expect(printed.contains(shown), "\(moment)")
            }
        }
    }

    @Test func aKeyOfAnotherCertificateIsRefused() throws {
        try Chain.with { chain in
            let other = chain.directory + "/other.pem"
            try OpenSSLProgram.run(["genpkey", "-algorithm", "RSA", "-out", other])
            #expect(throws: CryptographyError(.keyMismatch, "")) {
                try SigningIdentity(
                    certificatePEM: bytes(chain.certificates.certificate), privateKeyPEM: bytes(other),
                    intermediatePEM: bytes(chain.certificates.intermediate))
            }
            #expect(throws: CryptographyError(.unsupportedKey, "")) {
                try SigningIdentity(
                    certificatePEM: bytes(chain.certificates.certificate),
                    privateKeyPEM: bytes(chain.certificates.providerKey),
                    intermediatePEM: bytes(chain.certificates.intermediate))
            }
        }
    }

    @Test func anIntermediateThatIsNotTheIssuerIsRefused() throws {
        try Chain.with { chain in
            try Chain.with(.init(orderType: "order.com.example.shop")) { other in
                // The same names with a different key.
                let error = #expect(throws: CryptographyError.self) {
                    try SigningIdentity(
                        certificatePEM: bytes(chain.certificates.certificate),
                        privateKeyPEM: bytes(chain.certificates.key),
                        intermediatePEM: bytes(other.certificates.intermediate))
                }
                #expect(error?.code == .issuerMismatch)
                #expect(error?.message.contains("key identifier") == true)
                #expect(throws: CryptographyError(.issuerMismatch, "")) {
                    try SigningIdentity(
                        certificatePEM: bytes(chain.certificates.certificate),
                        privateKeyPEM: bytes(chain.certificates.key),
                        intermediatePEM: bytes(chain.certificates.root))
                }
            }
        }
    }

    @Test func invalidSigningPEMIsRefused() throws {
        try Chain.with { chain in
            let certificate = try bytes(chain.certificates.certificate)
            let key = try bytes(chain.certificates.key)
            let intermediate = try bytes(chain.certificates.intermediate)
            let encrypted = chain.directory + "/encrypted.pem"
            try OpenSSLProgram.run([
                "pkey", "-in", chain.certificates.key, "-aes128", "-passout", "pass:secret", "-out", encrypted,
            ])
            for (first, second, third) in [
                ([], key, intermediate), (certificate, [], intermediate), (certificate, key, []),
                (Array("text".utf8), key, intermediate), (Array(certificate.dropLast(400)), key, intermediate),
                (key, key, intermediate), (certificate, certificate, intermediate),
                (certificate, try bytes(encrypted), intermediate),
            ] {
                #expect(throws: CryptographyError(.malformed, "")) {
                    try SigningIdentity(certificatePEM: first, privateKeyPEM: second, intermediatePEM: third)
                }
            }
            let error = #expect(throws: CryptographyError.self) {
                try Certificate(pem: Certificate(pem: certificate).der)
            }
            #expect(error?.message.contains("openssl x509 -inform DER") == true)
        }
    }

    @Test func anExpiredCertificateIsRefusedWithItsAge() throws {
        try Chain.with(
            .init(
                orderType: "order.com.example.shop", notBeforeEpochSeconds: 1_600_000_000,
                notAfterEpochSeconds: 1_700_000_000)
        ) { chain in
            let certificate = try chain.identity().certificate
            try certificate.checkValidity(atEpochSeconds: 1_600_000_000)
            try certificate.checkValidity(atEpochSeconds: 1_700_000_000)
            let late = #expect(throws: CryptographyError.self) {
                try certificate.checkValidity(atEpochSeconds: 1_700_000_000 + 3 * 86_400)
            }
            #expect(late?.code == .notValidNow)
            #expect(late?.message.contains("expired 3 days ago") == true)
            #expect(throws: CryptographyError(.notValidNow, "")) {
                try certificate.checkValidity(atEpochSeconds: 1_599_999_999)
            }
            // The intermediate was made just now and was not yet valid in 2022.
            #expect(throws: CryptographyError(.notValidNow, "")) {
                try chain.identity().checkValidity(atEpochSeconds: 1_650_000_000)
            }
        }
    }

    @Test func manyThreadsSignAtOnce() async throws {
        let (identity, root) = try Chain.with { (try $0.identity(), try bytes($0.certificates.root)) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<8 {
                group.addTask {
                    for round in 0..<25 {
                        let content = Array("\(worker) \(round)".utf8)
                        let moment = Int64(1_741_190_531 + worker * 100 + round)
                        let signature = try identity.sign(content, signingEpochSeconds: moment)
                        let info = try CMS.verify(signature: signature, content: content, rootsPEM: root)
                        #expect(info.signingEpochSeconds == moment)
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}
