import CCrypto

/// The sole owner of a key and of the context that signs with it, for one caller at a time.
@safe
struct RSASigner: ~Copyable {
    private let key: PrivateKey
    private let context: OpaquePointer
    /// Bytes of each signature: those of the modulus.
    let signatureSize: Int

    /// Prepares the settings that every signature shares: padding of PKCS #1 v1.5 with SHA-256.
    ///
    /// Source: RFC 8017 §8.2; openssl EVP_PKEY_sign(3): sign may be called more than once on a context
    init(_ key: consuming PrivateKey) throws(CryptographyError) {
        self.key = key
        self.signatureSize = (self.key.bits + 7) / 8
        ErrorQueue.clear()
        let context: OpaquePointer? = unsafe try self.key.withRaw { raw throws(CryptographyError) in
            unsafe EVP_PKEY_CTX_new_from_pkey(nil, raw, nil)
        }
        guard let context = unsafe context else {
            throw CryptographyError.drained(.library, "preparing to sign")
        }
        guard unsafe EVP_PKEY_sign_init(context) == 1,
            unsafe EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1,
            unsafe EVP_PKEY_CTX_set_signature_md(context, DigestAlgorithm.sha256.raw) == 1
        else {
            unsafe EVP_PKEY_CTX_free(context)
            throw CryptographyError.drained(.library, "preparing to sign")
        }
        unsafe self.context = context
    }

    deinit { unsafe EVP_PKEY_CTX_free(self.context) }

    /// Returns the signature over a digest of 32 bytes.
    func sign(digest: [UInt8]) throws(CryptographyError) -> [UInt8] {
        ErrorQueue.clear()
        var done: Int32 = 0
        let signature = unsafe [UInt8](unsafeUninitializedCapacity: self.signatureSize) { output, count in
            var length = output.count
            done = unsafe digest.withUnsafeBufferPointer { input in
                unsafe EVP_PKEY_sign(self.context, output.baseAddress, &length, input.baseAddress, input.count)
            }
            count = done == 1 ? min(length, output.count) : 0
        }
        guard done == 1, signature.count == self.signatureSize else {
            throw CryptographyError.drained(.library, "signing with the private key")
        }
        return signature
    }
}
