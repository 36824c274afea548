import Cryptography
import Glibc
import Model
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
        return Brand(
            orderType: file.orderType,
            rules: BrandRules(
                orderType: file.orderType, merchant: file.merchant, returnInfo: file.returnInfo,
                changeNotifications: file.changeNotifications, passUnknownMembers: file.passUnknownMembers,
                webServiceURL: webServiceURL),
            signing: signing,
            push: try Self.push(file, files, chain: certificate + Array("\n".utf8) + issuer, key: key),
            pushOptions: file.pushOptions,
            assets: try files.assets(),
            pictureHosts: file.pictureHosts,
            tokenSecrets: try file.tokenSecrets.map { name throws(BrandError) in try Self.tokenSecrets(name, files) })
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
