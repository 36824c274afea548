import Cryptography
import Foundation
import TestKit
import Testing

@Suite struct CertificateTests {
    @Test func theFieldsAndExtensionsOfACertificateAreRead() throws {
        try Chain.with(
            .init(
                orderType: "order.com.example.shop", team: "ABCDE12345", notBeforeEpochSeconds: 1_600_000_000,
                notAfterEpochSeconds: 1_700_000_000)
        ) { chain in
            let certificate = try Certificate(pem: bytes(chain.certificates.certificate))
            let intermediate = try Certificate(pem: bytes(chain.certificates.intermediate))
            #expect(certificate.userIdentifier == "order.com.example.shop")
            #expect(certificate.organizationalUnit == "ABCDE12345")
            #expect(certificate.subject.contains("UID=order.com.example.shop"))
            #expect(certificate.issuer == intermediate.subject)
            #expect(certificate.notBeforeEpochSeconds == 1_600_000_000)
            #expect(certificate.notAfterEpochSeconds == 1_700_000_000)
            #expect(certificate.extensionText("1.2.840.113635.100.14.2") == "order.com.example.shop")
            #expect(certificate.extensionText("1.2.840.113635.100.14.3") == nil)
            #expect(certificate.hasExtendedKeyUsage("1.2.840.113635.100.4.19"))
            #expect(!certificate.hasExtendedKeyUsage("1.2.840.113635.100.4.14"))
            #expect(certificate.authorityKeyIdentifier == intermediate.subjectKeyIdentifier)
            #expect(certificate.subjectKeyIdentifier?.count == 20)
            #expect(intermediate.hasExtension("1.2.840.113635.100.6.2.1"))
            #expect(intermediate.extensionText("1.2.840.113635.100.6.2.1") == nil)
            #expect(intermediate.userIdentifier == nil)
        }
    }

    @Test(arguments: [
        "UTF8String", "PRINTABLESTRING", "IA5STRING", "VISIBLESTRING", "BMPSTRING", "UNIVERSALSTRING", "T61STRING",
    ])
    func anExtensionIsReadWhateverItsStringType(type: String) throws {
        let long = String(repeating: "order.com.example.shop ", count: 10)  // needs a length of two bytes
        try Chain.with { chain in
            let path = chain.directory + "/odd.pem"
            try OpenSSLProgram.run([
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=odd",
                "-keyout", chain.directory + "/odd-key.pem", "-out", path,
                "-addext", "1.2.840.113635.100.14.2=ASN1:\(type):\(long)", "-addext", "1.2.3.4=DER:0C05616263",
                "-addext", "1.2.3.5=DER:0C02C328", "-addext", "1.2.3.6=DER:1E03006100",
            ])
            let certificate = try Certificate(pem: bytes(path))
            #expect(certificate.extensionText("1.2.840.113635.100.14.2") == long.trimmingCharacters(in: .whitespaces))
            for broken in ["1.2.3.4", "1.2.3.5", "1.2.3.6"] { #expect(certificate.extensionText(broken) == nil) }
        }
    }
}
