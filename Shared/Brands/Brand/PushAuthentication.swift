/// The authentication of a brand to APNs.
///
/// Source: Wallet Orders §4.4
public enum PushAuthentication: Hashable, Sendable, CustomStringConvertible {
    /// The order type's certificate as a TLS client certificate, followed by its intermediate.
    case certificate(chainPEM: [UInt8], keyPEM: [UInt8])
    /// A token signed with a key of the team.
    case token(keyPEM: [UInt8], keyIdentifier: String, teamIdentifier: String)

    /// A description without the keys, so that it may be logged.
    public var description: String {
        switch self {
        case .certificate: "certificate"
        case .token(_, let key, let team): "token (key \(key), team \(team))"
        }
    }
}
