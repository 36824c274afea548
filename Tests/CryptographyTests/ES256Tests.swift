import TestKit
import Testing

@testable import Cryptography

@Suite struct ES256Tests {
    @Test func opensslAcceptsASignatureTurnedBackIntoDER() throws {
        try Chain.with { chain in
            let key = try ES256Key(privateKeyPEM: bytes(chain.certificates.providerKey))
            let publicKey = chain.directory + "/public.pem"
            try OpenSSLProgram.run(["pkey", "-in", chain.certificates.providerKey, "-pubout", "-out", publicKey])
            for round in 0..<20 {
                let message = Array("message \(round)".utf8)
                let raw = try key.sign(message)
                #expect(raw.count == 64)
                let der = DER.element(
                    DER.sequence, self.integer(raw.prefix(32)), self.integer(raw.suffix(32)))
                try OpenSSLProgram.run([
                    "dgst", "-sha256", "-verify", publicKey, "-signature", chain.write(der, "signature"),
                    chain.write(message, "message"),
                ])
            }
        }
    }

    @Test func shortCoordinatesArePaddedAndBadOnesRefused() throws {
        let raw = try ES256Key.raw([0x30, 0x07, 0x02, 0x01, 0x05, 0x02, 0x02, 0x00, 0x80])
        #expect(raw == [UInt8](repeating: 0, count: 31) + [5] + [UInt8](repeating: 0, count: 31) + [0x80])
        let long: [UInt8] = [0x02, 0x21] + [UInt8](repeating: 1, count: 33)
        for broken in [[], [0x30], [0x30, 0x00], [0x30, 0x03, 0x02, 0x01, 0x05], DER.element(0x30, long, long)] {
            #expect(throws: CryptographyError.self) { try ES256Key.raw(broken) }
        }
    }

    @Test func keysOfOtherKindsAreRefused() throws {
        try Chain.with { chain in
            #expect(throws: CryptographyError(.unsupportedKey, "")) {
                try ES256Key(privateKeyPEM: bytes(chain.certificates.key))
            }
            let other = chain.directory + "/p384.pem"
            try OpenSSLProgram.run([
                "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384", "-out", other,
            ])
            #expect(throws: CryptographyError(.unsupportedKey, "")) { try ES256Key(privateKeyPEM: bytes(other)) }
            #expect(throws: CryptographyError(.malformed, "")) { try ES256Key(privateKeyPEM: []) }
        }
    }

    /// Source: X.690 §8.3
    private func integer(_ digits: ArraySlice<UInt8>) -> [UInt8] {
        let short = Array(digits.drop { $0 == 0 })
        return DER.element(0x02, (short.first ?? 0x80) >= 0x80 ? [0] + short : short)
    }
}
