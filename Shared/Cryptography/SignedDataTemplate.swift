import CCrypto

/// The CMS structure of a detached signature, with all parts in place that are the same for each signature.
///
/// Written here rather than by `CMS_sign` because that costs 20 microseconds on top of the 244 of the RSA operation,
/// and this less than two. The fields, in order:
/// ```
/// ContentInfo ::= SEQUENCE { contentType id-signedData, [0] EXPLICIT SignedData }
/// SignedData ::= SEQUENCE { version 1, digestAlgorithms, encapContentInfo { id-data }, [0] certificates,
///                           signerInfos }
/// SignerInfo ::= SEQUENCE { version 1, issuerAndSerialNumber, digestAlgorithm, [0] signedAttrs,
///                           signatureAlgorithm, signature }
/// ```
/// Source: RFC 5652 §3, §5.1, §5.3
struct SignedDataTemplate: Sendable {
    private let contentInfoStart: [UInt8]
    private let signedDataStart: [UInt8]
    private let signerInfoStart: [UInt8]
    private let signatureAlgorithm: [UInt8]
    private let contentTypeAttribute: [UInt8]

    /// - Parameter certificates: all certificates to include; the signer's is the first.
    init(signer: Certificate, certificates: [Certificate]) {
        // id-signedData. Source: RFC 5652 §5.1
        self.contentInfoStart = DER.element(
            DER.objectIdentifier, [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, 0x02])
        // id-data. Source: RFC 5652 §4
        let data = DER.element(DER.objectIdentifier, [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, 0x01])
        // id-sha256, parameters absent. Source: RFC 5754 §2.2
        let sha256 = DER.element(
            DER.sequence,
            DER.element(DER.objectIdentifier, [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01]))
        let version1: [UInt8] = [0x02, 0x01, 0x01]
        // The elements of a set are in the order of their encodings. Source: X.690 §11.6
        let ordered = certificates.map(\.der).sorted { $0.lexicographicallyPrecedes($1) }
        self.signedDataStart =
            version1 + DER.element(DER.set, sha256) + DER.element(DER.sequence, data)
            + DER.element(DER.context0, Array(ordered.joined()))
        self.signerInfoStart =
            version1 + DER.element(DER.sequence, signer.issuerDER, signer.serialNumberDER) + sha256
        // sha256WithRSAEncryption, parameters NULL. Source: RFC 5754 §3.2
        self.signatureAlgorithm = DER.element(
            DER.sequence,
            DER.element(DER.objectIdentifier, [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x0B]), [0x05, 0x00])
        self.contentTypeAttribute = Self.attribute(3, data)
    }

    /// Returns the attributes that are signed, without tag and length: content type, signing time, message digest.
    ///
    /// They are in the order of their encodings, which their lengths decide.
    /// Source: RFC 5652 §11.1, §11.2, §11.3; X.690 §11.6
    func signedAttributes(messageDigest: [UInt8], signingEpochSeconds: Int64) -> [UInt8] {
        self.contentTypeAttribute
            + Self.attribute(5, SigningTime.element(epochSeconds: signingEpochSeconds))
            + Self.attribute(4, DER.element(DER.octetString, messageDigest))
    }

    /// Returns the bytes to hash and sign: the attributes as a SET, not with the tag that they have in the structure.
    ///
    /// Source: RFC 5652 §5.4
    static func signedBytes(_ attributes: [UInt8]) -> [UInt8] { DER.element(DER.set, attributes) }

    /// Assembles the whole structure.
    ///
    /// - Returns: the structure, and the index of the first byte that not each signature has: the signing time's.
    func assemble(attributes: [UInt8], signature: [UInt8]) -> (der: [UInt8], ownStart: Int) {
        func size(_ length: Int) -> Int { DER.headerSize(length: length) + length }

        let signerInfo =
            self.signerInfoStart.count + size(attributes.count) + self.signatureAlgorithm.count + size(signature.count)
        let signerInfos = size(signerInfo)
        let signedData = self.signedDataStart.count + size(signerInfos)
        let explicit = size(signedData)
        let contentInfo = self.contentInfoStart.count + size(explicit)

        var bytes: [UInt8] = []
        bytes.reserveCapacity(size(contentInfo))
        DER.appendHeader(DER.sequence, length: contentInfo, to: &bytes)
        bytes += self.contentInfoStart
        DER.appendHeader(DER.context0, length: explicit, to: &bytes)
        DER.appendHeader(DER.sequence, length: signedData, to: &bytes)
        bytes += self.signedDataStart
        DER.appendHeader(DER.set, length: signerInfos, to: &bytes)
        DER.appendHeader(DER.sequence, length: signerInfo, to: &bytes)
        bytes += self.signerInfoStart
        DER.appendHeader(DER.context0, length: attributes.count, to: &bytes)
        let ownStart = bytes.count + self.contentTypeAttribute.count
        bytes += attributes
        bytes += self.signatureAlgorithm
        DER.appendHeader(DER.octetString, length: signature.count, to: &bytes)
        bytes += signature
        return (bytes, ownStart)
    }

    /// Returns `SEQUENCE { attrType, SET { value } }` with a type of PKCS #9.
    private static func attribute(_ last: UInt8, _ value: [UInt8]) -> [UInt8] {
        DER.element(
            DER.sequence, DER.element(DER.objectIdentifier, Self.attributeType(last)), DER.element(DER.set, value))
    }

    private static func attributeType(_ last: UInt8) -> [UInt8] {
        [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x09, last]
    }
}

/// A moment as CMS writes it.
enum SigningTime {
    /// Returns a UTCTime for the years 1950 to 2049, otherwise a GeneralizedTime; always with seconds and zone Z.
    ///
    /// Source: RFC 5652 §11.3; openssl ASN1_TIME_set(3)
    /// - Parameter epochSeconds: clamped to the years 0 to 9999, since others cannot be written; no clock has them.
    static func element(epochSeconds: Int64) -> [UInt8] {
        let time = unsafe ASN1_TIME_set(nil, time_t(min(max(epochSeconds, -62_167_219_200), 253_402_300_799)))
        defer { unsafe ASN1_TIME_free(time) }

        var der: UnsafeMutablePointer<UInt8>?
        let length = unsafe i2d_ASN1_TIME(time, &der)
        // Only for lack of memory.
        guard length > 0 else { return [] }
        defer { unsafe ccrypto_free(der) }

        return unsafe Array(UnsafeBufferPointer(start: der, count: Int(length)))
    }
}
