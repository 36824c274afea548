import Cryptography

/// Finds, in a file with one or more intermediates, the one that issued a certificate.
///
/// Apple has several generations of its intermediate in use, and a bundle of all of them is convenient to mount.
/// Source: Wallet Orders §7: choose the one whose key identifier equals the certificate's authority key identifier
enum BrandIntermediate {
    /// Returns the chosen certificate, still as PEM text.
    ///
    /// - Parameter file: of several with the right key, the one that is valid longest is chosen; a single one is always
    ///   chosen, and the signing identity checks whether it issued the certificate.
    static func choose(
        from file: [UInt8], issuerOf certificate: Certificate
    ) throws(CryptographyError) -> [UInt8] {
        let texts = Self.certificates(in: file)
        guard texts.count > 1 else { return texts.first ?? file }
        var found: [String] = []
        var chosen: (text: [UInt8], holdsUntil: Int64)?
        for text in texts {
            let candidate = try Certificate(pem: text)
            found.append("\"\(candidate.subject)\" \(Self.digits(candidate.subjectKeyIdentifier))")
            let isIssuer =
                certificate.authorityKeyIdentifier.map { $0 == candidate.subjectKeyIdentifier }
                ?? (candidate.subject == certificate.issuer)
            guard isIssuer, candidate.notAfterEpochSeconds > chosen?.holdsUntil ?? .min else { continue }
            chosen = (text, candidate.notAfterEpochSeconds)
        }
        guard let chosen else {
            throw CryptographyError(
                .issuerMismatch,
                "checking the intermediates: none of \(found.joined(separator: ", ")) issued the certificate, whose "
                    + "issuer is \"\(certificate.issuer)\" with key identifier "
                    + Self.digits(certificate.authorityKeyIdentifier))
        }
        return chosen.text
    }

    private static func digits(_ identifier: [UInt8]?) -> String {
        identifier.map { String(decoding: Hexadecimal.digits($0), as: UTF8.self) } ?? "(none)"
    }

    /// Returns the texts from each line that begins a certificate to the line that ends it. Source: RFC 7468 §5.1
    static func certificates(in file: [UInt8]) -> [[UInt8]] {
        let newline = UInt8(ascii: "\n")
        let begin = Array("-----BEGIN CERTIFICATE-----".utf8)
        let end = Array("-----END CERTIFICATE-----".utf8)
        var texts: [[UInt8]] = []
        var open: [UInt8]?
        for line in file.split(separator: newline) {
            if line.starts(with: begin) { open = [] }
            guard open != nil else { continue }
            open?.append(contentsOf: line)
            open?.append(newline)
            if line.starts(with: end), let text = open {
                texts.append(text)
                open = nil
            }
        }
        return texts
    }
}
