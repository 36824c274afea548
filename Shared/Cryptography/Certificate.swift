/// The content of a certificate, read once and kept as plain values.
public struct Certificate: Hashable, Sendable {
    /// The certificate itself. Source: RFC 5280 §4.1
    public let der: [UInt8]
    /// The name of its holder, last part first: `C=US,OU=TEAM123456,CN=…,UID=order.com.example.shop`. Source: RFC 2253
    public let subject: String
    /// The name of its issuer, in the same form.
    public let issuer: String
    /// The UID of the subject: the order type identifier in an order type's certificate. Source: Wallet Orders §7
    public let userIdentifier: String?
    /// The OU of the subject: the team in an order type's certificate. Source: Wallet Orders §7
    public let organizationalUnit: String?
    /// The first second in which it is valid.
    public let notBeforeEpochSeconds: Int64
    /// The last second in which it is valid. Source: RFC 5280 §4.1.2.5
    public let notAfterEpochSeconds: Int64
    /// The name of its own key, if it has that extension. Source: RFC 5280 §4.2.1.2
    public let subjectKeyIdentifier: [UInt8]?
    /// The name of the key that signed it, if it has that extension. Source: RFC 5280 §4.2.1.1
    public let authorityKeyIdentifier: [UInt8]?
    /// The purposes that its key may be used for, as dotted object identifiers. Source: RFC 5280 §4.2.1.12
    let extendedKeyUsages: [String]
    /// The extensions by dotted object identifier, in the order of the certificate, with their DER.
    let extensions: [Extension]
    /// The issuer's name in DER, for signatures that name this certificate.
    let issuerDER: [UInt8]
    /// The serial number as a DER integer.
    let serialNumberDER: [UInt8]

    /// One extension, undecoded.
    struct Extension: Hashable, Sendable {
        let objectIdentifier: String
        let value: [UInt8]
    }
}

extension Certificate {
    /// Reads the first certificate of a PEM text.
    /// - Throws: `CryptographyError` `.malformed` if there is none.
    public init(pem: [UInt8]) throws(CryptographyError) {
        try self.init(X509Object(pem: pem, name: "the certificate"))
    }

    /// Reads a certificate as TLS passes it.
    /// - Throws: `CryptographyError` `.malformed` if the bytes are not one certificate and nothing else.
    public init(der: [UInt8]) throws(CryptographyError) {
        try self.init(X509Object(der: der, name: "the certificate"))
    }

    /// Returns true if the key may be used for a purpose.
    /// - Parameter objectIdentifier: the dotted form, such as `1.2.840.113635.100.4.19`.
    public func hasExtendedKeyUsage(_ objectIdentifier: String) -> Bool {
        self.extendedKeyUsages.contains(objectIdentifier)
    }

    /// Returns true if the certificate has an extension, with any value.
    public func hasExtension(_ objectIdentifier: String) -> Bool {
        self.extensions.contains { $0.objectIdentifier == objectIdentifier }
    }

    /// Returns the text of an extension whose value is one DER string of any kind.
    /// - Returns: nil if the extension is missing or not a string.
    public func extensionText(_ objectIdentifier: String) -> String? {
        self.extensions.first { $0.objectIdentifier == objectIdentifier }.flatMap { DERReader.text($0.value) }
    }

    /// Refuses a moment outside the certificate's validity.
    /// - Throws: `CryptographyError` `.notValidNow`, which names the certificate.
    public func checkValidity(atEpochSeconds now: Int64) throws(CryptographyError) {
        if now < self.notBeforeEpochSeconds {
            throw CryptographyError(
                .notValidNow,
                "checking certificate \"\(self.subject)\": it becomes valid only in "
                    + "\(Self.days(from: now, to: self.notBeforeEpochSeconds)); is the clock right?")
        }
        if now > self.notAfterEpochSeconds {
            throw CryptographyError(
                .notValidNow,
                "checking certificate \"\(self.subject)\": it expired "
                    + "\(Self.days(from: self.notAfterEpochSeconds, to: now)) ago; renew it")
        }
    }

    private static func days(from: Int64, to: Int64) -> String {
        let days = to.subtractingReportingOverflow(from).partialValue / 86_400
        return days == 1 ? "1 day" : "\(days) days"
    }
}
