import Cryptography
import Testing

@Suite struct DigestTests {
    /// Source: FIPS 180-4 examples
    @Test func digestsAreThoseOfTheStandard() {
        #expect(SHA256.hex([]) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        #expect(SHA256.hex(Array("abc".utf8)) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        #expect(
            SHA256.hex(Array("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq".utf8))
                == "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1")
        #expect(
            SHA256.hex([UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000))
                == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
    }

    /// Source: RFC 4231 §4
    @Test(
        arguments: [
            (
                [UInt8](repeating: 0x0B, count: 20), Array("Hi There".utf8),
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
            ),
            (
                Array("Jefe".utf8), Array("what do ya want for nothing?".utf8),
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
            ),
            (
                [UInt8](repeating: 0xAA, count: 20), [UInt8](repeating: 0xDD, count: 50),
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"
            ),
            (
                Array(1...25), [UInt8](repeating: 0xCD, count: 50),
                "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"
            ),
            (
                [UInt8](repeating: 0xAA, count: 131),
                Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
            ),
            (
                [UInt8](repeating: 0xAA, count: 131),
                Array(
                    ("This is a test using a larger than block-size key and a larger than block-size data. "
                        + "The key needs to be hashed before being used by the HMAC algorithm.").utf8),
                "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"
            ),
            ([], [], "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"),
        ] as [([UInt8], [UInt8], String)])
    func codesAreThoseOfTheStandard(key: [UInt8], message: [UInt8], code: String) {
        #expect(HMACSHA256.authenticate(message, key: key) == hex(code))
    }

    @Test func comparisonLooksAtEveryByte() {
        let token = Array("0123456789abcdef".utf8)
        #expect(constantTimeEqual(token, token))
        #expect(constantTimeEqual([], []))
        #expect(!constantTimeEqual(token, Array(token.dropLast())))
        for index in token.indices {
            var other = token
            other[index] ^= 0x80
            #expect(!constantTimeEqual(token, other))
        }
    }

    /// Source: RFC 4648 §10, with the padding left out
    @Test func base64HasNoPaddingAndTheAlphabetForURLs() {
        for (plain, encoded) in [
            ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"),
        ] { #expect(Base64URL.encode(Array(plain.utf8)) == encoded) }
        #expect(Base64URL.encode([0xFB, 0xEF, 0xFF]) == "--__")
    }

    @Test func digitsAndBase64AreReadBack() {
        for count in 0..<100 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 197 &+ count) }
            let text = Base64URL.encode(bytes)
            #expect(Base64URL.decode(Array(text.utf8)) == bytes)
            #expect(Hexadecimal.bytes(String(decoding: Hexadecimal.digits(bytes), as: UTF8.self)) == bytes)
        }
        for text in ["A", "AB", "ABB", "AA=", "A+AA", "AAAAé"] {
            #expect(Base64URL.decode(Array(text.utf8)) == nil, "\(text)")
        }
        for text in ["0", "0g", "AA", "é"] { #expect(Hexadecimal.bytes(text) == nil, "\(text)") }
    }
}
