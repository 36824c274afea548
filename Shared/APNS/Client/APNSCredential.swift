/// The credential presented to APNs. One client, and so each connection, has exactly one.
///
/// Source: Wallet Orders §4.4
public enum APNSCredential: Sendable {
    /// The order type's certificate, presented in the TLS handshake.
    ///
    /// - Parameters:
    ///   - chainPEM: the certificate, followed by the intermediates.
    ///   - keyPEM: the certificate's private key, unencrypted.
    case certificate(chainPEM: [UInt8], keyPEM: [UInt8])
    /// A signed token in every request. Share one source among all clients of the same key.
    case token(ProviderTokenSource)
}
