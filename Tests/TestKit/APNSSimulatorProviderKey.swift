/// A key that provider tokens may be signed with.
public struct APNSSimulatorProviderKey: Hashable, Sendable {
    /// Ten characters.
    public let keyIdentifier: String
    /// Ten characters.
    public let team: String
    let publicKey: APNSSimulatorES256

    /// - Parameter pem: a P-256 key, private (as Apple's `.p8`) or public.
    /// - Throws: `APNSSimulatorError` when it is none.
    public init(pem: [UInt8], keyIdentifier: String, team: String) throws(APNSSimulatorError) {
        guard let point = APNSSimulatorDER.point(keyPEM: pem), let key = APNSSimulatorES256(point: point) else {
            throw APNSSimulatorError(description: "reading the provider key: no P-256 key in PEM form")
        }
        self.keyIdentifier = keyIdentifier
        self.team = team
        self.publicKey = key
    }
}
