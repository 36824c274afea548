import CCrypto
public import Cryptography
import Synchronization

/// A P-256 key that checks what an `ES256Key` signed.
///
/// Its lock makes it safe to use from several threads.
/// Source: RFC 7518 §3.4, Wallet Orders §4.4
public final class ES256PublicKey: Sendable {
    private let key: Mutex<Key>

    /// The sole owner of one `EVP_PKEY *`.
    @safe
    private struct Key: ~Copyable {
        let raw: OpaquePointer

        deinit { unsafe EVP_PKEY_free(self.raw) }
    }

    /// - Parameter pem: a public key (SubjectPublicKeyInfo), or a private one as in Apple's `.p8` files, of which only
    ///   the public half is used.
    /// - Throws: `CryptographyError` `.malformed` or `.unsupportedKey` (not P-256).
    public init(pem: [UInt8]) throws(CryptographyError) {
        defer { ERR_clear_error() }

        guard let raw = unsafe Self.read(pem, isPrivate: false) ?? Self.read(pem, isPrivate: true) else {
            throw CryptographyError(.malformed, "reading the provider key: no key in PEM without a password was found")
        }
        let key = unsafe Key(raw: raw)
        guard unsafe EVP_PKEY_get_bits(key.raw) == 256, unsafe EVP_PKEY_is_a(key.raw, "EC") == 1 else {
            throw CryptographyError(.unsupportedKey, "reading the provider key: it is not an elliptic key on P-256")
        }
        self.key = Mutex(key)
    }

    private static func read(_ pem: [UInt8], isPrivate: Bool) -> OpaquePointer? {
        unsafe pem.withUnsafeBytes { bytes in
            let bio = unsafe BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count))
            defer { unsafe BIO_free(bio) }

            // No password, so a key that has one is not asked for on the terminal.
            return unsafe isPrivate
                ? PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in -1 }, nil)
                : PEM_read_bio_PUBKEY(bio, nil, { _, _, _, _ in -1 }, nil)
        }
    }

    /// Returns true if a signature in the form of JSON web tokens (r and s, 32 bytes each, big-endian) was made over
    /// this message with this key; false also for bytes that are not a signature.
    public func isValid(_ signature: [UInt8], for message: [UInt8]) -> Bool {
        guard signature.count == 64 else { return false }
        let numbers = Self.integer(signature[..<32]) + Self.integer(signature[32...])
        let der = [0x30, UInt8(numbers.count)] + numbers
        return self.key.withLock { key in
            // A signature that is refused leaves an error behind.
            defer { ERR_clear_error() }

            let context = unsafe EVP_MD_CTX_new()
            defer { unsafe EVP_MD_CTX_free(context) }

            guard unsafe EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key.raw) == 1 else { return false }
            return unsafe EVP_DigestVerify(context, der, der.count, message, message.count) == 1
        }
    }

    /// Returns a positive INTEGER in as few bytes as possible. Source: X.690 §8.3
    private static func integer(_ digits: ArraySlice<UInt8>) -> [UInt8] {
        let short = Array(digits.drop { $0 == 0 })
        let bytes = (short.first ?? 0x80) >= 0x80 ? [0] + short : short
        return [0x02, UInt8(bytes.count)] + bytes
    }
}
