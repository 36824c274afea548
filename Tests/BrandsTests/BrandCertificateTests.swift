import Brands
import Cryptography
import Foundation
import TestKit
import Testing

/// Faults in certificates that loading finds before Wallet does.
@Suite struct BrandCertificateTests {
    private static let orderType = "order.com.example.shop"

    /// Returns the message with which loading refuses the certificates.
    private func refusal(_ folder: BrandFolder) -> String {
        let error = #expect(throws: BrandError.self) { try folder.load() }
        #expect(error?.code == .certificate)
        return error?.message ?? ""
    }

    @Test func theOrderTypeMayBeInTheNameOrTheExtensionAlone() throws {
        for omitted in [.orderTypeExtension, .userIdentifier] as [DevelopmentCertificates.Options.Part] {
            var options = DevelopmentCertificates.Options(orderType: Self.orderType)
            options.omitted = [omitted]
            try BrandFolder.with(options) { folder in
                let certificate = try folder.load().signing.certificate
                #expect((certificate.userIdentifier == nil) == (omitted == .userIdentifier))
                #expect(
                    (certificate.extensionText("1.2.840.113635.100.14.2") == nil) == (omitted == .orderTypeExtension))
            }
        }
    }

    @Test func aCertificateWithoutAnOrderTypeIsRefused() throws {
        var options = DevelopmentCertificates.Options(orderType: Self.orderType)
        options.omitted = [.orderTypeExtension, .userIdentifier]
        try BrandFolder.with(options) { folder in
            #expect(self.refusal(folder).contains("it is for no order type, brand.json says \"\(Self.orderType)\""))
        }
    }

    @Test func aCertificateWithoutTheKeyUsageIsRefused() throws {
        var options = DevelopmentCertificates.Options(orderType: Self.orderType)
        options.omitted = [.keyUsage]
        try BrandFolder.with(options) { folder in
            #expect(self.refusal(folder).contains("it lacks the key usage 1.2.840.113635.100.4.19"))
        }
    }

    @Test func aKeyOfAnotherCertificateIsRefused() throws {
        try BrandFolder.with { folder in
            try BrandFolder.with(.init(orderType: Self.orderType)) { other in
                try folder.write("key.pem", try Array(Data(contentsOf: URL(filePath: other.certificates.key))))
                #expect(self.refusal(folder).contains("it does not belong to the certificate"))
            }
        }
    }

    @Test func aCertificateOutsideItsValidityIsRefused() throws {
        let now = Int64(Date().timeIntervalSince1970)
        for (start, end, message) in [
            (now - 10 * 86_400, now - 3 * 86_400 - 9, "it expired 3 days ago; renew it"),
            (now + 2 * 86_400 + 60, now + 9 * 86_400, "it becomes valid only in 2 days; is the clock right?"),
        ] {
            let options = DevelopmentCertificates.Options(
                orderType: Self.orderType, notBeforeEpochSeconds: start, notAfterEpochSeconds: end)
            try BrandFolder.with(options) { folder in #expect(self.refusal(folder).contains(message)) }
        }
    }

    /// Two generations of Apple's intermediate may have the same name; only the key distinguishes them.
    @Test func anIntermediateOfTheSameNameWithAnotherKeyIsRefused() throws {
        try BrandFolder.with { folder in
            try BrandFolder.with(.init(orderType: Self.orderType), hasOwnAuthority: true) { other in
                let wrong = try Array(Data(contentsOf: URL(filePath: other.certificates.intermediate)))
                let right = try Array(Data(contentsOf: URL(filePath: folder.certificates.intermediate)))
                #expect(try Certificate(pem: wrong).subject == Certificate(pem: right).subject)
                try folder.write("intermediate.pem", wrong)
                let message = self.refusal(folder)
                #expect(message.contains("did not issue the certificate"))
                let wanted = try #require(try Certificate(pem: right).subjectKeyIdentifier)
                #expect(message.contains(String(decoding: Hexadecimal.digits(wanted), as: UTF8.self)))
            }
        }
    }

    @Test func ofSeveralIntermediatesTheOneWithTheRightKeyIsTaken() throws {
        try BrandFolder.with { folder in
            try BrandFolder.with(.init(orderType: Self.orderType), hasOwnAuthority: true) { other in
                let wrong = try Array(Data(contentsOf: URL(filePath: other.certificates.intermediate)))
                let right = try Array(Data(contentsOf: URL(filePath: folder.certificates.intermediate)))
                let root = try Array(Data(contentsOf: URL(filePath: folder.certificates.root)))
                let note = Array("# WWDR\r\n".utf8)
                for bundle in [wrong + right, right + wrong, note + root + note + wrong + right] {
                    try folder.write("intermediate.pem", bundle)
                    let brand = try folder.load()
                    #expect(try brand.signing.intermediate == Certificate(pem: right))
                    guard case .certificate(let chain, _) = brand.push else {
                        Issue.record("not by certificate")
                        return
                    }
                    // The pusher presents the chain to APNs, not the whole bundle.
                    #expect(String(decoding: chain, as: UTF8.self).components(separatedBy: "BEGIN CERT").count == 3)
                }
                try folder.write("intermediate.pem", root + wrong)
                let message = self.refusal(folder)
                #expect(message.contains("none of"))
                #expect(message.contains("issued the certificate"))
                try folder.write(
                    "intermediate.pem",
                    root + Array("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".utf8))
                #expect(self.refusal(folder).contains("reading the certificate"))
            }
        }
    }

    @Test func theDaysUntilExpiryAreCountedForEachUse() throws {
        let now = Int64(Date().timeIntervalSince1970)
        let options = DevelopmentCertificates.Options(
            orderType: Self.orderType, notBeforeEpochSeconds: now - 60, notAfterEpochSeconds: now + 86_400 * 10)
        try BrandFolder.with(options) { folder in
            let certificates = try folder.load().certificates
            #expect(certificates.map(\.use) == [.signing, .intermediate, .push])
            #expect(certificates.map { Int($0.days(fromEpochSeconds: now).rounded()) } == [10, 3650, 10])
            #expect(certificates[0].days(fromEpochSeconds: now + 86_400 * 12) == -2)
        }
    }
}
