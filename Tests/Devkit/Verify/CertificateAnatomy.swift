import Foundation

/// The parts of a certificate that Wallet's policy checks, parsed without libcrypto. Signatures are not checked.
///
/// Source: RFC 5280 §4.1
struct CertificateAnatomy: Sendable {
    /// The whole certificate.
    let der: [UInt8]
    let issuer: [UInt8]
    let subject: [UInt8]
    let notBefore: Int64
    let notAfter: Int64
    /// Extension values by dotted identifier.
    let extensions: [String: [UInt8]]

    init(der bytes: ArraySlice<UInt8>) throws(ToolError) {
        let parts = try DER(bytes).children()
        guard let body = parts.first else { throw ToolError(.protocol, "reading a certificate: it is empty") }
        var fields = try body.children()[...]
        if fields.first?.tag == 0xA0 { fields = fields.dropFirst() }
        // serial number, algorithm, issuer, validity, subject, public key
        guard fields.count >= 6 else { throw ToolError(.protocol, "reading a certificate: members are missing") }
        let start = fields.startIndex
        let validity = try fields[start + 3].children()
        guard validity.count == 2, let notBefore = validity[0].time, let notAfter = validity[1].time else {
            throw ToolError(.protocol, "reading a certificate: its validity is not two times")
        }
        self.der = Array(bytes)
        self.issuer = Array(fields[start + 2].whole)
        self.subject = Array(fields[start + 4].whole)
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.extensions = try Self.extensions(fields.dropFirst(6))
    }

    private static func extensions(_ fields: ArraySlice<DER>) throws(ToolError) -> [String: [UInt8]] {
        var extensions: [String: [UInt8]] = [:]
        for field in fields where field.tag == 0xA3 {
            guard let list = try field.children().first else { continue }
            for item in try list.children() {
                let parts = try item.children()
                guard let name = parts.first?.objectIdentifier, let value = parts.last, value.tag == 0x04 else {
                    throw ToolError(.protocol, "reading a certificate: an extension has no name or no value")
                }
                extensions[name] = Array(value.content)
            }
        }
        return extensions
    }

    /// Parses the certificates of a PEM file.
    static func certificates(pem: [UInt8]) throws(ToolError) -> [CertificateAnatomy] {
        var certificates: [CertificateAnatomy] = []
        let text = String(decoding: pem, as: UTF8.self)
        for part in text.components(separatedBy: "-----BEGIN CERTIFICATE-----").dropFirst() {
            let base64 = part.components(separatedBy: "-----END CERTIFICATE-----")[0].filter { !$0.isWhitespace }
            guard let data = Data(base64Encoded: base64) else {
                throw ToolError(.protocol, "reading a PEM file: a certificate in it is not Base64")
            }
            certificates.append(try CertificateAnatomy(der: Array(data)[...]))
        }
        return certificates
    }

    /// The purposes named by the extended key usage. Source: RFC 5280 §4.2.1.12
    var purposes: [String] {
        guard let value = self.extensions["2.5.29.37"], let list = try? DER(value[...]).children() else { return [] }
        return list.compactMap(\.objectIdentifier)
    }

    /// Returns the text of an extension that holds one string; nil if there is none.
    func text(_ name: String) -> String? {
        guard let value = self.extensions[name], let string = try? DER(value[...]),
            [0x0C, 0x13, 0x16].contains(string.tag)
        else { return nil }
        return String(validating: string.content, as: UTF8.self)
    }

    /// UID of the subject, which also names the order type. Source: Wallet Orders §7
    var userIdentifier: String? {
        guard let sets = try? DER(self.subject[...]).children() else { return nil }
        for set in sets {
            for pair in (try? set.children()) ?? [] {
                guard let parts = try? pair.children(), parts.count == 2 else { continue }
                if parts[0].objectIdentifier == "0.9.2342.19200300.100.1.1" {
                    return String(validating: parts[1].content, as: UTF8.self)
                }
            }
        }
        return nil
    }
}
