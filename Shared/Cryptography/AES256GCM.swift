import CCrypto

/// AES-256-GCM: bytes that only the holder of a key can read, and that nobody else can change unnoticed.
///
/// Source: NIST SP 800-38D
public enum AES256GCM {
    /// Bytes of a key.
    public static let keySize = 32
    private static let nonceSize = 12
    private static let tagSize = 16

    /// Encrypts bytes under a random nonce.
    ///
    /// - Returns: the nonce, the encrypted bytes and the tag.
    public static func seal(_ bytes: [UInt8], key: [UInt8]) throws(CryptographyError) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        let nonce = (0..<Self.nonceSize).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        let cipher = try Cipher()
        try cipher.start(key: key, nonce: nonce, encrypts: true)
        return nonce + (try cipher.process(bytes)) + (try cipher.finish(tagSize: Self.tagSize))
    }

    /// Decrypts what `seal` returned.
    ///
    /// - Throws: `CryptographyError` with code `.verification` if it was sealed with another key or changed.
    public static func open(_ sealed: [UInt8], key: [UInt8]) throws(CryptographyError) -> [UInt8] {
        guard sealed.count >= Self.nonceSize + Self.tagSize else {
            throw CryptographyError(.malformed, "decrypting: too short")
        }
        let cipher = try Cipher()
        try cipher.start(key: key, nonce: Array(sealed.prefix(Self.nonceSize)), encrypts: false)
        let bytes = try cipher.process(Array(sealed.dropFirst(Self.nonceSize).dropLast(Self.tagSize)))
        try cipher.verify(tag: Array(sealed.suffix(Self.tagSize)))
        return bytes
    }
}

/// The sole owner of one `EVP_CIPHER_CTX *`, for one message.
@safe
private struct Cipher: ~Copyable {
    private let raw: OpaquePointer

    init() throws(CryptographyError) {
        ErrorQueue.clear()
        guard let raw = unsafe EVP_CIPHER_CTX_new() else { throw .drained(.library, "encrypting: no memory") }
        unsafe self.raw = raw
    }

    deinit { unsafe EVP_CIPHER_CTX_free(self.raw) }

    func start(key: [UInt8], nonce: [UInt8], encrypts: Bool) throws(CryptographyError) {
        guard key.count == AES256GCM.keySize else {
            throw CryptographyError(.malformed, "encrypting: the key must have 32 bytes")
        }
        guard unsafe EVP_CipherInit_ex(self.raw, EVP_aes_256_gcm(), nil, key, nonce, encrypts ? 1 : 0) == 1 else {
            throw .drained(.library, "encrypting: AES-256-GCM is refused")
        }
    }

    /// Encrypts or decrypts the whole message. GCM is a stream cipher: the result is as long.
    func process(_ bytes: [UInt8]) throws(CryptographyError) -> [UInt8] {
        guard let size = Int32(exactly: bytes.count) else {
            throw CryptographyError(.malformed, "encrypting: too long")
        }
        guard size > 0 else { return [] }
        var result = [UInt8](repeating: 0, count: bytes.count)
        var count: Int32 = 0
        guard unsafe EVP_CipherUpdate(self.raw, &result, &count, bytes, size) == 1, count == size else {
            throw .drained(.library, "encrypting: refused")
        }
        return result
    }

    /// Ends an encryption and returns its tag.
    func finish(tagSize: Int) throws(CryptographyError) -> [UInt8] {
        try self.end(.library, "encrypting: refused")
        var tag = [UInt8](repeating: 0, count: tagSize)
        guard unsafe EVP_CIPHER_CTX_ctrl(self.raw, EVP_CTRL_AEAD_GET_TAG, Int32(tagSize), &tag) == 1 else {
            throw .drained(.library, "encrypting: no tag")
        }
        return tag
    }

    /// Ends a decryption.
    func verify(tag: [UInt8]) throws(CryptographyError) {
        var tag = tag
        guard unsafe EVP_CIPHER_CTX_ctrl(self.raw, EVP_CTRL_AEAD_SET_TAG, Int32(tag.count), &tag) == 1 else {
            throw .drained(.library, "decrypting: the tag is refused")
        }
        try self.end(.verification, "decrypting: sealed with another key, or changed")
    }

    private func end(_ code: CryptographyError.Code, _ message: String) throws(CryptographyError) {
        // GCM has nothing left to write at the end.
        var rest: [UInt8] = [0]
        var count: Int32 = 0
        guard unsafe EVP_CipherFinal_ex(self.raw, &rest, &count) == 1 else { throw .drained(code, message) }
    }
}
