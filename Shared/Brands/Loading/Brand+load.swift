import Cryptography
import Glibc
import Model
import Packaging
import Tokens

extension Brand {
    /// Reads a brand's directory and rejects everything that Wallet would refuse later.
    ///
    /// Source: Wallet Orders §2.5, §7
    /// - Parameters:
    ///   - webServiceURL: the URL that Wallet calls; must begin with `https://`.
    ///   - now: the time at which the certificates must be valid; nil means the system's clock.
    /// - Throws: `BrandError`, which names the file, the place in it and the correction.
    public static func load(
        directory: String, webServiceURL: String, nowEpochSeconds now: Int64? = nil
    ) throws(BrandError) -> Brand {
        try Self.checkWebServiceURL(webServiceURL)
        let files = BrandDirectory(path: directory)
        let bytes = try files.file("brand.json")
        let file: BrandFile
        do {
            file = try BrandFile(bytes)
        } catch {
            throw BrandError(error.code, "\(directory)/brand.json: \(error.message)")
        }
        let certificate = try files.file(file.certificate)
        let key = try files.file(file.key)
        let intermediate = try files.file(file.intermediate)
        let signing: SigningIdentity
        let issuer: [UInt8]
        do {
            issuer = try BrandIntermediate.choose(from: intermediate, issuerOf: Certificate(pem: certificate))
            signing = try SigningIdentity(
                certificatePEM: certificate, privateKeyPEM: key, intermediatePEM: issuer)
            try signing.checkValidity(atEpochSeconds: now ?? Int64(time(nil)))
            try Self.checkPolicy(signing, file)
        } catch {
            throw BrandError(
                .certificate,
                "\(directory) (\(file.certificate), \(file.key), \(file.intermediate)): \(error.message)")
        }
        let documents = try Self.documentRules(file, files)
        var rules = BrandRules(
            orderType: file.orderType, merchant: file.merchant, returnInfo: file.returnInfo,
            changeNotifications: file.changeNotifications, passUnknownMembers: file.passUnknownMembers,
            webServiceURL: webServiceURL)
        rules.linkFault = { documents.fault(of: $0) }
        let (pictures, receipts) = (file.pictureHosts, documents.hosts)
        if pictures.ignoresQuery || receipts.ignoresQuery {
            rules.linkIdentity = { ($1 ? pictures : receipts).identity(of: $0) }
        }
        return Brand(
            orderType: file.orderType, rules: rules,
            signing: signing,
            push: try Self.push(file, files, chain: certificate + Array("\n".utf8) + issuer, key: key),
            pushOptions: file.pushOptions,
            assets: try files.assets(),
            pictureHosts: file.pictureHosts, documents: documents, retention: file.retention,
            tokenSecrets: try file.tokenSecrets.map { name throws(BrandError) in try Self.tokenSecrets(name, files) })
    }

    private static func documentRules(_ file: BrandFile, _ files: BrandDirectory) throws(BrandError) -> DocumentRules {
        var rules = file.documents.rules
        guard let named = file.documents.authorization else { return rules }
        // The end of a line, which editors add.
        let content = try files.file(named.file).reversed().drop { $0 == 0x0A || $0 == 0x0D }.reversed()
        guard 1...DocumentRules.authorizationLimit ~= content.count, content.allSatisfy({ (0x20...0x7E).contains($0) })
        else {
            throw BrandError(
                .configuration,
                "\(files.path)/\(named.file): it must have one line of at most \(DocumentRules.authorizationLimit) "
                    + "printable ASCII characters, the value of Authorization, such as Bearer …")
        }
        rules.authorization = DocumentRules.Authorization(
            host: named.host, port: named.port, value: String(decoding: Array(content), as: UTF8.self))
        return rules
    }

    static func tokenSecrets(_ name: String, _ files: BrandDirectory) throws(BrandError) -> TokenSecrets {
        let content = try files.file(name)
        do {
            return try TokenSecrets(file: content)
        } catch {
            throw BrandError(.configuration, "\(files.path)/\(name): \(error.message)")
        }
    }

    private static func push(
        _ file: BrandFile, _ files: BrandDirectory, chain: [UInt8], key: [UInt8]
    ) throws(BrandError) -> PushAuthentication {
        switch file.push {
        case .certificate: return .certificate(chainPEM: chain, keyPEM: key)
        case .token(let name, let keyIdentifier, let teamIdentifier):
            let providerKey = try files.file(name)
            do {
                _ = try ES256Key(privateKeyPEM: providerKey)
            } catch {
                throw BrandError(.certificate, "\(files.path)/\(name): \(error.message)")
            }
            return .token(keyPEM: providerKey, keyIdentifier: keyIdentifier, teamIdentifier: teamIdentifier)
        }
    }

    /// Checks the requirements of Wallet's policy for order bundles on the two certificates.
    ///
    /// Source: Wallet Orders §2.5, §7: the type is in the subject's UID or in an extension, accept if one equals
    private static func checkPolicy(_ signing: SigningIdentity, _ file: BrandFile) throws(CryptographyError) {
        let certificate = signing.certificate
        let types = [certificate.userIdentifier, certificate.extensionText("1.2.840.113635.100.14.2")]
        guard types.contains(file.orderType.rawValue) else {
            let found = types.compactMap(\.self).first.map { "\"\($0)\"" } ?? "no order type"
            throw CryptographyError(
                .verification,
                "checking the certificate: it is for \(found), brand.json says \"\(file.orderType.rawValue)\"")
        }
        guard certificate.hasExtendedKeyUsage("1.2.840.113635.100.4.19") else {
            throw CryptographyError(
                .verification,
                "checking the certificate: it lacks the key usage 1.2.840.113635.100.4.19; it must be an Order Type ID "
                    + "certificate")
        }
        guard signing.intermediate.hasExtension("1.2.840.113635.100.6.2.1") else {
            throw CryptographyError(
                .verification,
                "checking the intermediate: it lacks the marker 1.2.840.113635.100.6.2.1 of Apple's WWDR certificates")
        }
    }

    /// Refuses an address that Wallet would not call.
    ///
    /// Source: Wallet Orders §1.1
    static func checkWebServiceURL(_ url: String) throws(BrandError) {
        let scheme = "https://"
        let rest = url.dropFirst(scheme.count)
        let host = rest.prefix { $0 != "/" && $0 != ":" }
        let plain = url.utf8.allSatisfy { (0x21...0x7E).contains($0) }
        guard url.hasPrefix(scheme), !host.isEmpty, plain, !rest.contains(where: { "?#@\"".contains($0) }) else {
            throw BrandError(
                .configuration,
                "the web service's address \"\(url)\" must look like https://wallet.example.com/apple, without query")
        }
    }
}

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
