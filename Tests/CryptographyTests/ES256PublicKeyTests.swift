import Cryptography
import Foundation
import TestKit
import Testing

@Suite struct ES256PublicKeyTests {
    /// Source: RFC 6979 §A.2.5 (P-256, SHA-256, message "sample")
    static let point = hex(
        "60FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6"
            + "7903FE1008B8BC99A41AE9E95628BC64F2F1B20C2D7E9F5177A3C294D4462299")
    static let signature = hex(
        "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716"
            + "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8")

    /// Returns the public key of a point on P-256, as PEM. Source: RFC 5480 §2
    static func pem(_ point: [UInt8]) -> [UInt8] {
        let der = hex("3059301306072A8648CE3D020106082A8648CE3D03010703420004") + point
        return Array("-----BEGIN PUBLIC KEY-----\n\(Data(der).base64EncodedString())\n-----END PUBLIC KEY-----\n".utf8)
    }

    @Test func onlyTheStandardsSignatureIsValid() throws {
        let key = try ES256PublicKey(pem: Self.pem(Self.point))
        let message = Array("sample".utf8)
        #expect(key.isValid(Self.signature, for: message))
        #expect(!key.isValid(Self.signature, for: Array("Sample".utf8)))
        #expect(!key.isValid(Self.signature, for: []))
        for broken in [[], [UInt8](repeating: 0, count: 64), [UInt8](repeating: 0xFF, count: 64)] {
            #expect(!key.isValid(broken, for: message))
        }
        #expect(!key.isValid(Array(Self.signature.dropLast()), for: message))
        #expect(!key.isValid(Self.signature + [0], for: message))
        for index in Self.signature.indices {
            var wrong = Self.signature
            wrong[index] ^= 1
            #expect(!key.isValid(wrong, for: message))
        }
        // The key still verifies the correct signature.
        #expect(key.isValid(Self.signature, for: message))
    }

    @Test func publicAndPrivateKeyFilesVerifyASignature() throws {
        try Chain.with { chain in
            let path = chain.directory + "/public.pem"
            try OpenSSLProgram.run(["pkey", "-in", chain.certificates.providerKey, "-pubout", "-out", path])
            let signer = try ES256Key(privateKeyPEM: bytes(chain.certificates.providerKey))
            for half in [path, chain.certificates.providerKey] {
                let key = try ES256PublicKey(pem: bytes(half))
                // About one signature in 128 contains a short number.
                for round in 0..<300 {
                    let message = Array("message \(round)".utf8)
                    let isValid = try key.isValid(signer.sign(message), for: message)
                    #expect(isValid)
                }
            }
        }
    }

    @Test func aPointOffTheCurveIsRefused() {
        var wrong = Self.point
        wrong[63] ^= 1
        for point in [wrong, [UInt8](repeating: 0, count: 64), [UInt8](repeating: 0xFF, count: 64), []] {
            #expect(throws: CryptographyError(.malformed, "")) { try ES256PublicKey(pem: Self.pem(point)) }
        }
    }

    @Test func keysOfOtherKindsAreRefused() throws {
        try Chain.with { chain in
            #expect(throws: CryptographyError(.unsupportedKey, "")) {
                try ES256PublicKey(pem: bytes(chain.certificates.key))
            }
            #expect(throws: CryptographyError(.malformed, "")) {
                try ES256PublicKey(pem: bytes(chain.certificates.certificate))
            }
        }
        for text in [
            "", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "-----BEGIN PUBLIC KEY-----",
        ] {
            #expect(throws: CryptographyError(.malformed, "")) { try ES256PublicKey(pem: Array(text.utf8)) }
        }
    }

    @Test func aCertificateIsReadFromDERAndNothingElse() throws {
        try Chain.with { chain in
            let certificate = try Certificate(pem: bytes(chain.certificates.certificate))
            #expect(try Certificate(der: certificate.der) == certificate)
            #expect(throws: CryptographyError(.malformed, "")) { try Certificate(der: certificate.der + [0]) }
            #expect(throws: CryptographyError(.malformed, "")) { try Certificate(der: certificate.der.dropLast()) }
            #expect(throws: CryptographyError(.malformed, "")) { try Certificate(der: []) }
            for index in stride(from: 0, to: certificate.der.count, by: 3) {
                var changed = certificate.der
                changed[index] ^= 0xFF
                _ = try? Certificate(der: changed)
            }
        }
    }
}
