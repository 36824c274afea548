import Cryptography
import TestKit
import Testing

@Suite struct VerifyTests {
    let content = Array("{}".utf8)

    @Test func aValidSignatureYieldsItsSigner() throws {
        try Chain.with { chain in
            let identity = try chain.identity()
            let signature = try identity.sign(self.content, signingEpochSeconds: 1_741_190_531)
            let info = try CMS.verify(
                signature: signature, content: self.content, rootsPEM: bytes(chain.certificates.root))
            #expect(info.signer == identity.certificate)
            #expect(Set(info.certificates) == [identity.certificate, identity.intermediate])
            #expect(info.signingEpochSeconds == 1_741_190_531)
        }
    }

    @Test func verificationFailsForOtherContentRootOrTime() throws {
        try Chain.with { chain in
            let root = try bytes(chain.certificates.root)
            let signature = try chain.identity().sign(self.content, signingEpochSeconds: 1_741_190_531)
            #expect(throws: CryptographyError(.verification, "")) {
                try CMS.verify(signature: signature, content: Array("{ }".utf8), rootsPEM: root)
            }
            try Chain.with(.init(orderType: "order.com.example.shop")) { other in
                #expect(throws: CryptographyError(.verification, "")) {
                    try CMS.verify(
                        signature: signature, content: self.content, rootsPEM: bytes(other.certificates.root))
                }
            }
            #expect(throws: CryptographyError(.verification, "")) {
                try CMS.verify(
                    signature: signature, content: self.content, rootsPEM: root, atEpochSeconds: 4_000_000_000)
            }
            #expect(throws: CryptographyError(.malformed, "")) {
                try CMS.verify(signature: signature, content: self.content, rootsPEM: [])
            }
        }
    }

    /// Changing a byte of the attributes or the signature is noticed, and no change makes the reader trap.
    @Test func brokenSignaturesAreRefused() throws {
        try Chain.with { chain in
            let root = try bytes(chain.certificates.root)
            let signature = try chain.identity().sign(self.content, signingEpochSeconds: 1_741_190_531)
            for length in stride(from: 0, to: signature.count, by: 61) {
                #expect(throws: CryptographyError.self) {
                    try CMS.verify(signature: Array(signature.prefix(length)), content: self.content, rootsPEM: root)
                }
            }
            for position in stride(from: signature.count - 380, to: signature.count, by: 7) {
                var broken = signature
                broken[position] ^= 1
                #expect(throws: CryptographyError.self, "\(position)") {
                    try CMS.verify(signature: broken, content: self.content, rootsPEM: root)
                }
            }
            for position in stride(from: 0, to: signature.count, by: 13) {
                var broken = signature
                broken[position] ^= 0x81
                _ = try? CMS.verify(signature: broken, content: self.content, rootsPEM: root)
            }
        }
    }

    @Test func anAttachedSignatureIsRefused() throws {
        try Chain.with { chain in
            let attached = chain.directory + "/attached"
            try OpenSSLProgram.run([
                "cms", "-sign", "-binary", "-nodetach", "-in", chain.write(self.content, "content"), "-signer",
                chain.certificates.certificate, "-inkey", chain.certificates.key, "-certfile",
                chain.certificates.intermediate, "-outform", "DER", "-out", attached,
            ])
            #expect(throws: CryptographyError(.malformed, "")) {
                try CMS.verify(
                    signature: bytes(attached), content: self.content, rootsPEM: bytes(chain.certificates.root))
            }
        }
    }
}
