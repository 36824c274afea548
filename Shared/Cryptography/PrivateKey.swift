import CCrypto

/// The sole owner of one `EVP_PKEY *` with a private half.
@safe
struct PrivateKey: ~Copyable {
    private let raw: OpaquePointer

    /// Reads the key of a PEM text, PKCS #8 or the older forms, without a password.
    init(pem: [UInt8], name: String) throws(CryptographyError) {
        ErrorQueue.clear()
        let parsed: OpaquePointer? = unsafe MemoryInput.with(pem) { bio in
            unsafe PEM_read_bio_PrivateKey(bio, nil, refusePassword, nil)
        }
        guard let parsed = unsafe parsed else {
            throw CryptographyError.drained(
                .malformed, "reading \(name): no private key in PEM without a password was found")
        }
        unsafe self.raw = parsed
    }

    deinit { unsafe EVP_PKEY_free(self.raw) }

    /// True if it is an RSA key.
    var isRSA: Bool { unsafe EVP_PKEY_is_a(self.raw, "RSA") == 1 }

    /// Bits of the modulus, or of the curve.
    var bits: Int { Int(unsafe EVP_PKEY_get_bits(self.raw)) }

    /// True if it is a key on the curve P-256.
    var isP256: Bool {
        guard unsafe EVP_PKEY_is_a(self.raw, "EC") == 1 else { return false }
        return unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { buffer in
            var length = 0
            let known = unsafe EVP_PKEY_get_group_name(self.raw, buffer.baseAddress, buffer.count, &length)
            // Sixty-four characters were requested, so the buffer has an address.
            return unsafe known == 1 && String(cString: buffer.baseAddress!) == "prime256v1"
        }
    }

    /// Lends the pointer. It must not leave the closure.
    func withRaw<Result>(_ body: (OpaquePointer) throws(CryptographyError) -> Result) throws(CryptographyError)
        -> Result
    { unsafe try body(self.raw) }
}
