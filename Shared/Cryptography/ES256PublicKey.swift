import CCrypto
import Synchronization

/// A P-256 key that checks what an `ES256Key` signed.
///
/// Its lock makes it safe to use from several threads.
/// Source: RFC 7518 §3.4, Wallet Orders §4.4
public final class ES256PublicKey: Sendable {
    private let key: Mutex<PublicKey>

    /// - Parameter pem: a public key (SubjectPublicKeyInfo), or a private one as in Apple's `.p8` files, of which only
    ///   the public half is used.
    /// - Throws: `CryptographyError` `.malformed` or `.unsupportedKey` (not P-256).
    public init(pem: [UInt8]) throws(CryptographyError) {
        let key = try PublicKey(pem: pem, name: "the provider key")
        guard key.isP256 else {
            throw CryptographyError(.unsupportedKey, "reading the provider key: it is not an elliptic key on P-256")
        }
        self.key = Mutex(key)
    }

    /// Returns true if a signature in the form of JSON web tokens (r and s, 32 bytes each, big-endian) was made over
    /// this message with this key; false also for bytes that are not a signature.
    public func isValid(_ signature: [UInt8], for message: [UInt8]) -> Bool {
        guard signature.count == 64 else { return false }
        let der = DER.element(
            DER.sequence, Self.integer(signature[..<32]), Self.integer(signature[32...]))
        return self.key.withLock { key in Self.verify(der, message, key) }
    }

    private static func verify(_ signature: [UInt8], _ message: [UInt8], _ key: borrowing PublicKey) -> Bool {
        ErrorQueue.clear()
        // A signature that is refused leaves an error behind.
        defer { ErrorQueue.clear() }

        let context = unsafe EVP_MD_CTX_new()
        defer { unsafe EVP_MD_CTX_free(context) }

        let ready: Int32 = unsafe key.withRaw { key in
            unsafe EVP_DigestVerifyInit(context, nil, DigestAlgorithm.sha256.raw, nil, key)
        }
        guard ready == 1 else { return false }
        return unsafe signature.withUnsafeBufferPointer { signature in
            unsafe message.withUnsafeBufferPointer { message in
                unsafe EVP_DigestVerify(
                    context, signature.baseAddress, signature.count, message.baseAddress, message.count) == 1
            }
        }
    }

    /// Returns a positive INTEGER in as few bytes as possible. Source: X.690 §8.3
    private static func integer(_ digits: ArraySlice<UInt8>) -> [UInt8] {
        let short = Array(digits.drop { $0 == 0 })
        return DER.element(DER.integer, (short.first ?? 0x80) >= 0x80 ? [0] + short : short)
    }
}
