import Testing

@testable import Cryptography

@Suite struct AES256GCMTests {
    static let key = (0..<32).map { UInt8($0) }

    /// Made with another implementation: the `AESGCM` of Python's cryptography.
    @Test func aMessageOfAnotherImplementationIsOpened() throws {
        let sealed = try #require(Hexadecimal.bytes(Self.sealed))
        #expect(try AES256GCM.open(sealed, key: Self.key) == Array("an answer".utf8))
    }

    @Test func theSameBytesAreSealedDifferentlyEachTime() throws {
        for count in [0, 1, 16, 300_000] {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
            let sealed = try AES256GCM.seal(bytes, key: Self.key)
            #expect(sealed.count == count + 28)
            #expect(try AES256GCM.open(sealed, key: Self.key) == bytes)
            #expect(try AES256GCM.seal(bytes, key: Self.key) != sealed)
        }
    }

    @Test func aChangedByteOrAnotherKeyIsRefused() throws {
        let sealed = try AES256GCM.seal(Array("an answer".utf8), key: Self.key)
        for index in sealed.indices {
            var changed = sealed
            changed[index] ^= 1
            #expect(throws: CryptographyError(.verification, "")) { try AES256GCM.open(changed, key: Self.key) }
        }
        #expect(throws: CryptographyError(.verification, "")) {
            try AES256GCM.open(sealed, key: Array(repeating: 0, count: 32))
        }
        #expect(throws: CryptographyError(.malformed, "")) { try AES256GCM.open([1, 2, 3], key: Self.key) }
        #expect(throws: CryptographyError(.malformed, "")) { try AES256GCM.seal([], key: [1]) }
    }

    static let sealed = "000102030405060708090a0b266cf67aab96b57eff09d1dbbff4bd99f2ae8bbd4e6c931357"
}
