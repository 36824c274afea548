// Owner: each `SigningSlot` owns one copy of the key and one signing context; certificates are plain values.
// Threads: any number at once; a slot is used under its own lock, and there is one for each core.
// Bounds: as many keys in memory as cores; a signature takes a quarter of a millisecond of processor time and never
// waits for I/O.
import CCrypto
import Glibc
import Synchronization

/// The certificate, key and intermediate that sign an order type's packages.
public final class SigningIdentity: Sendable {
    /// The signer's certificate.
    public let certificate: Certificate
    /// The certificate that issued it: the current WWDR intermediate.
    public let intermediate: Certificate

    private let template: SignedDataTemplate
    private let slots: [SigningSlot]

    /// Reads certificate, key and intermediate, and checks that they belong together.
    ///
    /// The validity depends on the moment and is checked separately: `checkValidity(atEpochSeconds:)`.
    /// Source: Wallet Orders §2.4, §7
    /// - Parameter concurrency: the most callers that sign at the same time without waiting; nil means one per core.
    /// - Throws: `CryptographyError` `.malformed`, `.unsupportedKey` (not RSA), `.keyMismatch` or `.issuerMismatch`.
    public init(
        certificatePEM: [UInt8], privateKeyPEM: [UInt8], intermediatePEM: [UInt8], concurrency: Int? = nil
    ) throws(CryptographyError) {
        let signer = try X509Object(pem: certificatePEM, name: "the certificate")
        let issuer = try X509Object(pem: intermediatePEM, name: "the intermediate certificate")
        let key = try PrivateKey(pem: privateKeyPEM, name: "the private key")
        guard key.isRSA, key.bits >= 2048 else {
            throw CryptographyError(
                .unsupportedKey, "reading the private key: an order type's key is RSA with 2048 bits or more")
        }
        self.certificate = try Certificate(signer)
        self.intermediate = try Certificate(issuer)
        try Self.checkKey(key, of: signer)
        try Self.checkIssuer(issuer, of: signer, self.certificate, self.intermediate)
        self.template = SignedDataTemplate(
            signer: self.certificate, certificates: [self.certificate, self.intermediate])
        var slots: [SigningSlot] = []
        for _ in 0..<max(1, concurrency ?? Self.cores) {
            // Read again rather than copied, so that no two slots share anything.
            slots.append(SigningSlot(try RSASigner(PrivateKey(pem: privateKeyPEM, name: "the private key"))))
        }
        self.slots = slots
    }

    /// Returns a detached CMS signature over the content, in DER, with signer and intermediate inside.
    ///
    /// Signed attributes: content type, message digest and signing time, without which Wallet refuses the signature.
    /// Source: RFC 5652 §5.4, Wallet Orders §2.4
    public func sign(_ content: [UInt8], signingEpochSeconds: Int64) throws(CryptographyError) -> [UInt8] {
        try self.sign(digest: SHA256.digest(content), signingEpochSeconds: signingEpochSeconds)
    }

    /// Signs content whose SHA-256 is known.
    public func sign(digest: [UInt8], signingEpochSeconds: Int64) throws(CryptographyError) -> [UInt8] {
        try self.signature(digest: digest, signingEpochSeconds: signingEpochSeconds).der
    }

    /// Signs as `sign` does, and also returns the parts of the signature.
    public func signature(
        digest: [UInt8], signingEpochSeconds: Int64
    ) throws(CryptographyError) -> DetachedSignature {
        let attributes = self.template.signedAttributes(
            messageDigest: digest, signingEpochSeconds: signingEpochSeconds)
        let value = try self.rawSignature(SHA256.digest(SignedDataTemplate.signedBytes(attributes)))
        return DetachedSignature(
            self.template.assemble(attributes: attributes, signature: value), value: value)
    }

    /// Refuses a moment at which the certificate or the intermediate is not valid.
    public func checkValidity(atEpochSeconds now: Int64) throws(CryptographyError) {
        try self.certificate.checkValidity(atEpochSeconds: now)
        try self.intermediate.checkValidity(atEpochSeconds: now)
    }

    private func rawSignature(_ digest: [UInt8]) throws(CryptographyError) -> [UInt8] {
        try self.withSlot { signer in
            Result { () throws(CryptographyError) in try signer.sign(digest: digest) }
        }.get()
    }

    /// Works in the first free slot; if all are in use, waits for the first one.
    ///
    /// libcrypto allows one key for several threads, but then they contend for the lock of its blinding values. With
    /// one key and one lock per slot, no two threads ever touch the same libcrypto object at the same time.
    private func withSlot<Value: Sendable>(_ body: (borrowing RSASigner) -> Value) -> Value {
        for slot in self.slots {
            if let value = slot.signer.withLockIfAvailable({ body($0) }) { return value }
        }
        // There is at least one slot: the initializer makes one for each core, and at least one.
        return self.slots[0].signer.withLock { body($0) }
    }

    private static var cores: Int { Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))) }

    private static func checkKey(
        _ key: borrowing PrivateKey, of signer: borrowing X509Object
    ) throws(CryptographyError) {
        ErrorQueue.clear()
        let matches: Int32 = unsafe try key.withRaw { key throws(CryptographyError) in
            unsafe try signer.withRaw { certificate throws(CryptographyError) in
                unsafe X509_check_private_key(certificate, key)
            }
        }
        guard matches == 1 else {
            throw CryptographyError.drained(
                .keyMismatch, "checking the private key: it does not belong to the certificate")
        }
    }

    /// Checks that names and key identifiers agree, and that the signature is the intermediate's.
    ///
    /// Source: Wallet Orders §7: don't hard-wire the generation of WWDR, compare AKI and SKI
    private static func checkIssuer(
        _ issuer: borrowing X509Object, of signer: borrowing X509Object, _ certificate: Certificate,
        _ intermediate: Certificate
    ) throws(CryptographyError) {
        ErrorQueue.clear()
        let issued: Bool = unsafe try issuer.withRaw { issuer throws(CryptographyError) in
            unsafe try signer.withRaw { signer throws(CryptographyError) in
                unsafe X509_check_issued(issuer, signer) == X509_V_OK
                    && X509_verify(signer, X509_get0_pubkey(issuer)) == 1
            }
        }
        guard issued else {
            throw CryptographyError.drained(
                .issuerMismatch,
                "checking the intermediate: \"\(intermediate.subject)\" did not issue the certificate, its issuer is "
                    + "\"\(certificate.issuer)\"\(Self.authority(of: certificate)); take the intermediate whose "
                    + "subject key identifier is that")
        }
    }

    private static func authority(of certificate: Certificate) -> String {
        guard let identifier = certificate.authorityKeyIdentifier else { return "" }
        return " with key identifier \(String(decoding: Hexadecimal.digits(identifier), as: UTF8.self))"
    }
}

/// One key with its context, for one thread at a time.
private final class SigningSlot: Sendable {
    let signer: Mutex<RSASigner>

    init(_ signer: consuming sending RSASigner) { self.signer = Mutex(signer) }
}

/// A detached CMS signature that `SigningIdentity` made.
public struct DetachedSignature: Hashable, Sendable {
    /// The whole structure, in DER.
    public let der: [UInt8]
    /// The index in `der` of the first byte that not each signature of the same identity has. Before it are the
    /// certificates, after it signing time, digest and value.
    public let ownStart: Int
    /// The value that only the key can make. It is at the end of the structure.
    public let value: [UInt8]

    init(_ structure: (der: [UInt8], ownStart: Int), value: [UInt8]) {
        (self.der, self.ownStart) = structure
        self.value = value
    }
}
