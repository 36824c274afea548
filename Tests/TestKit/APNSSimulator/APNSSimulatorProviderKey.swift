import Cryptography

/// A key that provider tokens may be signed with.
public struct APNSSimulatorProviderKey: Sendable {
    /// Ten characters.
    public let keyIdentifier: String
    /// Ten characters.
    public let team: String
    let publicKey: ES256PublicKey

    /// - Parameter pem: a P-256 key, private (as Apple's `.p8`) or public.
    /// - Throws: `APNSSimulatorError` if it is not such a key.
    public init(pem: [UInt8], keyIdentifier: String, team: String) throws(APNSSimulatorError) {
        do {
            self.publicKey = try ES256PublicKey(pem: pem)
        } catch {
            throw APNSSimulatorError(description: error.message)
        }
        self.keyIdentifier = keyIdentifier
        self.team = team
    }
}
