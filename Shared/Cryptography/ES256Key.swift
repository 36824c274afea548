import CCrypto
import Synchronization

/// A P-256 key that signs APNs provider tokens.
///
/// Its lock makes it safe to use from several threads; a token is signed once in 40 minutes, so no thread waits.
/// Source: RFC 7518 §3.4, Wallet Orders §4.4
public final class ES256Key: Sendable {
    private let key: Mutex<PrivateKey>

    /// - Parameter privateKeyPEM: PKCS #8, as in Apple's `.p8` files.
    /// - Throws: `CryptographyError` `.malformed` or `.unsupportedKey` (not P-256).
    public init(privateKeyPEM: [UInt8]) throws(CryptographyError) {
        let key = try PrivateKey(pem: privateKeyPEM, name: "the provider key")
        guard key.isP256 else {
            throw CryptographyError(.unsupportedKey, "reading the provider key: it is not an elliptic key on P-256")
        }
        self.key = Mutex(key)
    }

    /// Signs by ECDSA with SHA-256, in the form of JSON web tokens: r and s, 32 bytes each, big-endian.
    public func sign(_ message: [UInt8]) throws(CryptographyError) -> [UInt8] {
        let result = self.key.withLock { key in
            Result { () throws(CryptographyError) in try Self.raw(Self.der(message, key)) }
        }
        return try result.get()
    }

    private static func der(_ message: [UInt8], _ key: borrowing PrivateKey) throws(CryptographyError) -> [UInt8] {
        ErrorQueue.clear()
        let context = unsafe EVP_MD_CTX_new()
        defer { unsafe EVP_MD_CTX_free(context) }

        let ready: Int32 = unsafe try key.withRaw { key throws(CryptographyError) in
            unsafe EVP_DigestSignInit(context, nil, DigestAlgorithm.sha256.raw, nil, key)
        }
        var done: Int32 = 0
        // A P-256 signature in DER has at most 72 bytes: two integers of 33 with their headers, and one more header.
        let signature = unsafe [UInt8](unsafeUninitializedCapacity: 80) { output, count in
            guard ready == 1 else { return }
            var length = output.count
            done = unsafe message.withUnsafeBufferPointer { input in
                unsafe EVP_DigestSign(context, output.baseAddress, &length, input.baseAddress, input.count)
            }
            count = done == 1 ? min(length, output.count) : 0
        }
        guard done == 1 else { throw CryptographyError.drained(.library, "signing with the provider key") }
        return signature
    }

    /// Converts `SEQUENCE { r INTEGER, s INTEGER }` to two numbers of fixed length.
    ///
    /// Source: RFC 3279 §2.2.3, RFC 7518 §3.4
    static func raw(_ der: [UInt8]) throws(CryptographyError) -> [UInt8] {
        var outer = DERReader(der)
        if let (tag, content) = outer.next(), tag == DER.sequence, outer.isAtEnd {
            var inner = DERReader(Array(content))
            if let r = Self.coordinate(inner.next()), let s = Self.coordinate(inner.next()), inner.isAtEnd {
                return r + s
            }
        }
        throw CryptographyError(.library, "signing with the provider key: libcrypto's result is not an ECDSA signature")
    }

    private static func coordinate(_ element: (tag: UInt8, content: ArraySlice<UInt8>)?) -> [UInt8]? {
        guard let (tag, content) = element, tag == DER.integer else { return nil }
        let digits = content.drop { $0 == 0 }
        guard digits.count <= 32 else { return nil }
        return [UInt8](repeating: 0, count: 32 - digits.count) + digits
    }
}
