import Cryptography
import Synchronization

/// The token sources of a process: one for each key, shared by all clients that use the key.
///
/// Order types of one team may share a key, and a key that is removed and added again within 20 minutes must not sign
/// again. Thread: any. Bounded: the `limit` keys used last.
/// Source: Wallet Orders §4.4
public final class ProviderTokenSources: Sendable {
    /// The maximum number of keys, far above the number of brands of a process.
    static let limit = 1_000

    private struct Key: Hashable {
        let team: String
        let identifier: String
        let privateKey: [UInt8]
    }

    private let sources = Mutex<[(key: Key, source: ProviderTokenSource)]>([])

    public init() {}

    /// Returns the source of a key's tokens, the same for every call with that key.
    ///
    /// - Parameters:
    ///   - privateKeyPEM: the content of the `.p8` file.
    ///   - keyIdentifier: the identifier of the key, 10 characters.
    ///   - teamIdentifier: the identifier of the developer team, 10 characters.
    /// - Throws: `CryptographyError` if the file does not hold a P-256 key.
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
