public import Tokens

extension TokenAuthority {
    /// Mints with the secrets of one file, and with those that brands name in their brand.json.
    ///
    /// - Parameters:
    ///   - path: the path of the file of shared secrets.
    ///   - content: the content of the file, just read.
    /// - Throws: `TokenSecrets.Failure`.
    public convenience init(path: String, content: [UInt8], brands: BrandLibrary) throws(TokenSecrets.Failure) {
        try self.init(
            content: content,
            read: { () throws(TokenSecrets.Failure) in
                do throws(BrandError) {
                    return try BrandDirectory.secrets(path)
                } catch {
                    throw TokenSecrets.Failure(message: error.message)
                }
            }, ownSecrets: { brands.tokenSecrets(of: $0) })
    }
}
