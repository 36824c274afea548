import Cryptography
import Synchronization

/// The token sources of a process: one for each key, shared by all that use the key.
///
/// Order types of one team may share a key, and a key that is removed and added again within 20 minutes must not sign
/// again. Thread: any. Bounded: the keys used last, `limit` of them.
/// Source: Wallet Orders §4.4
public final class ProviderTokenSources: Sendable {
    /// Far more keys than a process has brands.
    static let limit = 1_000

    private struct Key: Hashable {
        let team: String
        let identifier: String
        let privateKey: [UInt8]
    }

    private let sources = Mutex<[(key: Key, source: ProviderTokenSource)]>([])

    public init() {}

    /// The source of a key's tokens, always the same one.
    ///
    /// - Parameters:
    ///   - privateKeyPEM: content of the `.p8` file.
    ///   - keyIdentifier: that of the key, 10 characters.
    ///   - teamIdentifier: that of the developer team, 10 characters.
    /// - Throws: `CryptographyError` if it is not a P-256 key.
    public func source(
        privateKeyPEM: [UInt8], keyIdentifier: String, teamIdentifier: String
    ) throws -> ProviderTokenSource {
        let key = Key(team: teamIdentifier, identifier: keyIdentifier, privateKey: privateKeyPEM)
        let signer = try ES256Key(privateKeyPEM: privateKeyPEM)
        return self.sources.withLock { sources in
            if let index = sources.firstIndex(where: { $0.key == key }) {
                let known = sources.remove(at: index)
                sources.append(known)
                return known.source
            }
            let source = ProviderTokenSource(keyIdentifier: keyIdentifier, teamIdentifier: teamIdentifier) {
                try signer.sign($0)
            }
            if sources.count >= Self.limit { sources.removeFirst() }
            sources.append((key, source))
            return source
        }
    }
}
