import CCrypto

/// The sole owner of one `X509 *`.
@safe
struct X509Object: ~Copyable {
    private let raw: OpaquePointer

    /// Reads the first certificate of a PEM text.
    /// - Parameter name: the name of the certificate in the error: `"the certificate"`.
    init(pem: [UInt8], name: String) throws(CryptographyError) {
        ErrorQueue.clear()
        let parsed: OpaquePointer? = unsafe MemoryInput.with(pem) { bio in
            unsafe PEM_read_bio_X509(bio, nil, refusePassword, nil)
        }
        guard let parsed = unsafe parsed else {
            // Apple's portal gives DER, which begins with the tag of a sequence.
            let isDER = pem.first == DER.sequence
            throw CryptographyError.drained(
                .malformed,
                "reading \(name): "
                    + (isDER
                        ? "it is DER; convert it with openssl x509 -inform DER -in FILE.cer -out FILE.pem"
                        : "no PEM text between BEGIN CERTIFICATE and END CERTIFICATE was found"))
        }
        unsafe self.raw = parsed
    }

    /// Reads a certificate in DER, with nothing after it.
    init(der: [UInt8], name: String) throws(CryptographyError) {
        ErrorQueue.clear()
        var length = 0
        let parsed = unsafe der.withUnsafeBufferPointer { buffer in
            let start = buffer.baseAddress
            var cursor = unsafe start
            let parsed = unsafe d2i_X509(nil, &cursor, buffer.count)
            if let cursor = unsafe cursor, let start = unsafe start { length = unsafe cursor - start }
            return unsafe parsed
        }
        guard let parsed = unsafe parsed else {
            throw CryptographyError.drained(.malformed, "reading \(name): it is not a certificate in DER")
        }
        guard length == der.count else {
            unsafe X509_free(parsed)
            throw CryptographyError(.malformed, "reading \(name): \(der.count - length) bytes follow it")
        }
        unsafe self.raw = parsed
    }

    /// Takes over one reference that the caller owned.
    init(owning raw: OpaquePointer) { unsafe self.raw = raw }

    deinit { unsafe X509_free(self.raw) }

    /// Lends the pointer. It must not leave the closure.
    func withRaw<Result>(_ body: (OpaquePointer) throws(CryptographyError) -> Result) throws(CryptographyError)
        -> Result
    { unsafe try body(self.raw) }
}

/// Bytes as libcrypto reads them.
enum MemoryInput {
    /// Lends a `BIO *` over the bytes; nil if there are none, or too many for its length.
    static func with<Result>(_ bytes: [UInt8], _ body: (OpaquePointer?) -> Result) -> Result {
        unsafe bytes.withUnsafeBytes { buffer in
            // An empty array has no address, which libcrypto treats as an error, like a nil BIO.
            guard let length = Int32(exactly: buffer.count), let start = buffer.baseAddress else {
                return body(nil)
            }
            let bio = unsafe BIO_new_mem_buf(start, length)
            defer { unsafe BIO_free(bio) }

            return unsafe body(bio)
        }
    }
}

/// Replaces libcrypto's own callback, which would ask at the terminal and wait forever.
///
/// Source: openssl PEM_read_bio_PrivateKey(3): less than zero is an error
func refusePassword(
    _ buffer: UnsafeMutablePointer<CChar>?, _ size: Int32, _ writing: Int32, _ context: UnsafeMutableRawPointer?
) -> Int32 { -1 }
