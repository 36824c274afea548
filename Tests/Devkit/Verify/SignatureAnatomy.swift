/// The parts of a detached CMS signature, parsed without libcrypto. The cryptography is not checked.
///
/// Source: RFC 5652 §5
struct SignatureAnatomy: Sendable {
    let isDetached: Bool
    let contentType: String
    let certificates: [CertificateAnatomy]
    let signerCount: Int
    let digestAlgorithm: String
    let signatureAlgorithm: String
    /// True if both algorithms have no parameters or NULL. The parameters are not signed. Source: RFC 5754 §2, §3.2
    let hasPlainAlgorithms: Bool
    /// True if there are signed attributes at all.
    let hasAttributes: Bool
    /// Types of the signed attributes with their first value.
    private let attributes: [String: DER]
    private let signerIdentifier: DER
    /// True if both versions match the signer's identification: 1 for issuer and serial number, 3 for a key identifier.
    /// The versions are not signed. Source: RFC 5652 §5.1, §5.3
    let hasFittingVersions: Bool

    init(_ bytes: [UInt8]) throws(ToolError) {
        let outer = try DER(bytes[...]).children()
        guard outer.count == 2, outer[0].objectIdentifier == "1.2.840.113549.1.7.2",
            let signed = try outer[1].children().first
        else { throw ToolError(.protocol, "reading the signature: it is not CMS SignedData") }
        let fields = try signed.children()
        guard fields.count >= 4, let infos = fields.last, infos.tag == 0x31 else {
            throw ToolError(.protocol, "reading the signature: members of SignedData are missing")
        }
        let content = try fields[2].children()
        self.contentType = content.first?.objectIdentifier ?? "none"
        self.isDetached = content.count == 1
        var certificates: [CertificateAnatomy] = []
        for field in fields where field.tag == 0xA0 {
            for certificate in try field.children() {
                certificates.append(try CertificateAnatomy(der: certificate.whole))
            }
        }
        self.certificates = certificates
        let signers = try infos.children()
        self.signerCount = signers.count
        guard let signer = try signers.first?.children(), signer.count >= 5 else {
            throw ToolError(.protocol, "reading the signature: it has no signer")
        }
        self.signerIdentifier = signer[1]
        let version: [UInt8] = signer[1].tag == 0x80 ? [3] : [1]
        self.hasFittingVersions = [fields[0], signer[0]].allSatisfy {
            $0.tag == 0x02 && $0.content.elementsEqual(version)
        }
        self.digestAlgorithm = try signer[2].children().first?.objectIdentifier ?? "none"
        var attributes: [String: DER] = [:]
        var next = 3
        if signer[3].tag == 0xA0 {
            next = 4
            for attribute in try signer[3].children() {
                let parts = try attribute.children()
                guard parts.count == 2, let name = parts[0].objectIdentifier, let value = try parts[1].children().first
                else { throw ToolError(.protocol, "reading the signature: a signed attribute has no value") }
                attributes[name] = value
            }
        }
        self.attributes = attributes
        self.hasAttributes = !attributes.isEmpty
        let algorithm = try signer[next].children()
        self.signatureAlgorithm = algorithm.first?.objectIdentifier ?? "none"
        self.hasPlainAlgorithms = [algorithm, try signer[2].children()].allSatisfy { parts in
            parts.count == 1 || parts.count == 2 && parts[1].whole.elementsEqual([0x05, 0x00])
        }
    }

    /// The content's type as signed. Source: RFC 5652 §11.1
    var signedContentType: String? { self.attributes["1.2.840.113549.1.9.3"]?.objectIdentifier }
    /// Source: RFC 5652 §11.3
    var signingTime: Int64? { self.attributes["1.2.840.113549.1.9.5"]?.time }
    /// Source: RFC 5652 §11.2
    var messageDigest: [UInt8]? { self.attributes["1.2.840.113549.1.9.4"].map { Array($0.content) } }

    /// The certificate that the signature identifies by issuer and serial number, or by key identifier.
    var signer: CertificateAnatomy? {
        self.certificates.first { certificate in
            if self.signerIdentifier.tag == 0x80 {
                // SubjectKeyIdentifier is an OCTET STRING inside the extension (RFC 5280 §4.2.1.2).
                guard let value = certificate.extensions["2.5.29.14"], let key = try? DER(value[...]) else {
                    return false
                }
                return key.content.elementsEqual(self.signerIdentifier.content)
            }
            guard let parts = try? self.signerIdentifier.children(), parts.count == 2,
                let body = try? DER(certificate.der[...]).children().first?.children()
            else { return false }
            let serial = body.first { $0.tag == 0x02 }
            return parts[0].whole.elementsEqual(certificate.issuer)
                && serial?.content.elementsEqual(parts[1].content) == true
        }
    }
}
