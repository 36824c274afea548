public import Operations
public import Tokens

/// The settings about brands and token secrets, each with the check that prevents a start.
extension Settings {
    /// Makes the authority for authentication tokens, from the shared secrets and those of brands.
    public func tokens(_ brands: BrandLibrary) throws(SettingsError) -> TokenAuthority {
        let path = try self.required(.tokenSecrets, "path of a file with one secret a line")
        let content = try self.content(.tokenSecrets, of: path)
        self.checkSecrecy(of: path)
        do {
            self.checkStrength(of: try TokenSecrets(file: content), path)
            return try TokenAuthority(path: path, content: content, brands: brands)
        } catch {
            throw SettingsError(.tokenSecrets, value: path, error.message)
        }
    }

    /// Reads the longest time that a link in a mail may be valid for, in seconds; 0: there are none.
    public func mailLinkSeconds() throws(SettingsError) -> Int64 {
        Int64(try self.integer(.mailLinkDays, default: MailLink.defaultDays, in: MailLink.dayRange)) * 86_400
    }

    /// Warns of secrets that a person seems to have made up.
    private func checkStrength(of secrets: TokenSecrets, _ origin: String) {
        for line in secrets.weakLines {
            self.warn(
                "\(origin): the secret in line \(line) can be guessed; create one with: openssl rand -hex 32")
        }
    }

    /// Loads all brands of a directory. If the configuration is only checked, a brand that fails is also an error.
    public func brands(in directory: String, webServiceURL: String) throws(SettingsError) -> BrandLibrary {
        do {
            let library = try BrandLibrary(
                directory: directory, webServiceURL: webServiceURL, isEmptyAllowed: self.isPreflight)
            if self.isCheck, let failure = library.failures.first { throw failure.error }
            for path in BrandLibrary.keyFiles(in: directory) { self.checkSecrecy(of: path) }
            for type in library.brands.orderTypes {
                guard let secrets = library.brands[type]?.tokenSecrets else { continue }
                self.checkStrength(of: secrets, "tokenSecrets of brand \(type)")
            }
            return library
        } catch {
            throw SettingsError(.brands, value: directory, "\(error)")
        }
    }
}
