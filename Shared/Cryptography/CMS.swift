import CCrypto

/// Verifies detached signatures, as a Wallet would.
public enum CMS {
    /// The facts in a valid signature about its signer and its time.
    public struct SignerInfo: Hashable, Sendable {
        /// The signer's certificate.
        public let signer: Certificate
        /// All certificates inside the signature, the signer's among them.
        public let certificates: [Certificate]
        /// The signed attribute signingTime, nil if it is missing. Source: RFC 5652 §11.3
        public let signingEpochSeconds: Int64?
    }

    /// Checks the signature over the content and the chain from its signer to one of the roots.
    ///
    /// Only detached signatures with exactly one signer are accepted. The purposes of the signer's key are left
    /// to the caller: those that libcrypto knows do not include Apple's.
    /// Source: RFC 5652 §5.6, Wallet Orders §2.4
    /// - Parameters:
    ///   - signature: DER.
    ///   - rootsPEM: one or more trusted certificates.
    ///   - now: the moment at which the chain must be valid; nil means the system's clock.
    /// - Throws: `CryptographyError` `.malformed` for bytes that are not a signature or root, else `.verification`.
    public static func verify(
        signature: [UInt8], content: [UInt8], rootsPEM: [UInt8], atEpochSeconds now: Int64? = nil
    ) throws(CryptographyError) -> SignerInfo {
        ErrorQueue.clear()
        defer { ErrorQueue.clear() }

        let message = unsafe signature.withUnsafeBufferPointer { buffer in
            var cursor = buffer.baseAddress
            return unsafe d2i_CMS_ContentInfo(nil, &cursor, buffer.count)
        }
        defer { unsafe CMS_ContentInfo_free(message) }

        guard let message = unsafe message,
            unsafe OBJ_obj2nid(CMS_get0_type(message)) == NID_pkcs7_signed
        else { throw CryptographyError.drained(.malformed, "reading the signature: it is not CMS SignedData in DER") }
        guard unsafe CMS_is_detached(message) == 1 else {
            throw CryptographyError.drained(.malformed, "reading the signature: it is not detached")
        }
        let infos = unsafe CMS_get0_SignerInfos(message)
        guard unsafe OPENSSL_sk_num(infos) == 1 else {
            throw CryptographyError(.malformed, "reading the signature: it must have exactly one signer")
        }
        let store = unsafe try Self.store(rootsPEM, now: now)
        defer { unsafe X509_STORE_free(store) }

        let verified: Int32 = unsafe MemoryInput.with(content) { bio in
            unsafe bio == nil ? 0 : CMS_verify(message, nil, store, bio, nil, UInt32(CMS_BINARY))
        }
        guard verified == 1 else {
            throw CryptographyError.drained(.verification, "verifying the signature: it does not hold")
        }
        return unsafe try Self.describe(message, OpaquePointer(OPENSSL_sk_value(infos, 0)))
    }

    /// Makes a store of the trusted roots, for any purpose.
    private static func store(_ rootsPEM: [UInt8], now: Int64?) throws(CryptographyError) -> OpaquePointer? {
        let store = unsafe X509_STORE_new()
        let count: Int = unsafe MemoryInput.with(rootsPEM) { bio in
            var count = 0
            while let root = unsafe PEM_read_bio_X509(bio, nil, refusePassword, nil) {
                defer { unsafe X509_free(root) }

                if unsafe X509_STORE_add_cert(store, root) == 1 { count += 1 }
            }
            return count
        }
        guard count > 0, unsafe X509_STORE_set_purpose(store, X509_PURPOSE_ANY) == 1 else {
            unsafe X509_STORE_free(store)
            throw CryptographyError.drained(.malformed, "reading the root certificates: there are none in PEM")
        }
        // The end of the file was left on the queue as an error.
        ErrorQueue.clear()
        if let now { unsafe X509_VERIFY_PARAM_set_time(X509_STORE_get0_param(store), Int(now)) }
        return unsafe store
    }

    private static func describe(
        _ message: OpaquePointer, _ info: OpaquePointer?
    ) throws(CryptographyError) -> SignerInfo {
        let inside = unsafe CMS_get1_certs(message)
        defer { unsafe freeCertificates(inside) }

        var certificates: [Certificate] = []
        for index in unsafe 0..<max(0, OPENSSL_sk_num(inside)) {
            guard let raw = unsafe OPENSSL_sk_value(inside, index) else { continue }
            certificates.append(unsafe try certificate(OpaquePointer(raw)))
        }
        var signer: OpaquePointer?
        unsafe CMS_SignerInfo_get0_algs(info, nil, &signer, nil, nil)
        guard let signer = unsafe signer else {
            throw CryptographyError.drained(.malformed, "reading the signature: its signer is missing")
        }
        return SignerInfo(
            signer: unsafe try certificate(signer), certificates: certificates,
            signingEpochSeconds: unsafe Self.signingTime(info))
    }

    /// Reads a certificate that stays with its owner.
    private static func certificate(_ raw: OpaquePointer) throws(CryptographyError) -> Certificate {
        unsafe X509_up_ref(raw)
        return unsafe try Certificate(X509Object(owning: raw))
    }

    private static func signingTime(_ info: OpaquePointer?) -> Int64? {
        let index = unsafe CMS_signed_get_attr_by_NID(info, NID_pkcs9_signingTime, -1)
        guard index >= 0, let attribute = unsafe CMS_signed_get_attr(info, index) else { return nil }
        for kind in [V_ASN1_UTCTIME, V_ASN1_GENERALIZEDTIME] {
            if let data = unsafe X509_ATTRIBUTE_get0_data(attribute, 0, kind, nil) {
                return unsafe epochSeconds(data.assumingMemoryBound(to: ASN1_TIME.self))
            }
        }
        return nil
    }
}

/// Frees a list of certificates and the references it holds.
private func freeCertificates(_ stack: OpaquePointer?) {
    guard let stack = unsafe stack else { return }
    while let raw = unsafe OPENSSL_sk_pop(stack) { unsafe X509_free(OpaquePointer(raw)) }
    unsafe OPENSSL_sk_free(stack)
}
