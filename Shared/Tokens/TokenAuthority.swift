import Cryptography
public import Model
import Synchronization

/// Mints and verifies the authentication tokens of orders: the only place that knows which secrets belong to whom.
///
/// A brand may have its own secrets, so a system that mints for one brand cannot mint for another. All other brands
/// share the secrets of one file. Both may change while a service runs; each call uses the present ones.
public final class TokenAuthority: Sendable {
    /// The result of a look at the shared file.
    public enum Event: Hashable, Sendable {
        /// New secrets are in use.
        case loaded
        /// The file cannot be used, for this reason; the secrets stay as they were. Reported once for each reason.
        case failed(String)
    }

    private struct Current {
        var shared: TokenSecrets
        var file: SecretsFile
    }

    /// Reads the file of shared secrets.
    public typealias Reading = @Sendable () throws(TokenSecrets.Failure) -> [UInt8]
    /// Returns the secrets that an order type has to itself; nil if it shares them.
    public typealias OwnSecrets = @Sendable (OrderTypeIdentifier) -> TokenSecrets?

    /// Nil for secrets that never change.
    private let read: Reading?
    private let ownSecrets: OwnSecrets
    private let current: Mutex<Current>

    /// - Parameters:
    ///   - content: the content of the file of shared secrets, just read.
    ///   - read: reads the file again; may block.
    ///   - ownSecrets: called for each token.
    /// - Throws: `TokenSecrets.Failure`.
    public init(
        content: [UInt8], read: @escaping Reading, ownSecrets: @escaping OwnSecrets
    ) throws(TokenSecrets.Failure) {
        self.read = read
        self.ownSecrets = ownSecrets
        self.current = Mutex(Current(shared: try TokenSecrets(file: content), file: SecretsFile(taken: content)))
    }

    /// Makes an authority of secrets that all order types share and that never change.
    public init(_ secrets: TokenSecrets) {
        self.read = nil
        self.ownSecrets = { _ in nil }
        self.current = Mutex(Current(shared: secrets, file: SecretsFile(taken: [])))
    }

    /// Returns the present secrets of an order type.
    public func secrets(for type: OrderTypeIdentifier) -> TokenSecrets {
        self.ownSecrets(type) ?? self.current.withLock { $0.shared }
    }

    /// Mints the token of an order that does not bring its own. It is the same for every caller until the first secret
    /// changes.
    public func token(for key: OrderKey) -> AuthenticationToken { self.secrets(for: key.orderType).token(for: key) }

    /// Returns true for a token that was minted for an order under any of the present secrets.
    public func isToken(_ text: String, of key: OrderKey) -> Bool {
        self.secrets(for: key.orderType).isToken(text, of: key)
    }

    /// Returns true if an order keeps the token that it has, though a change brings another: that is one of ours too,
    /// and the order got a new one meanwhile, with which everything bound to the earlier ones ended.
    public func keeps(_ standing: AuthenticationToken, _ brought: AuthenticationToken, _ key: OrderKey) -> Bool {
        let secrets = self.secrets(for: key.orderType)
        return secrets.isRenewed(standing.rawValue, of: key) && secrets.isToken(brought.rawValue, of: key)
    }

    /// Returns true if a token that a client presents opens an order.
    ///
    /// It is the stored token, or both were minted under present secrets: then the order was packaged under a secret
    /// other than the one that the checkout minted with. An order that brought its token is opened by that one alone.
    /// - Parameter stored: the token of the order as it was packaged.
    public func opens(_ shown: String, _ key: OrderKey, stored: AuthenticationToken) -> Bool {
        if constantTimeEqual(Array(shown.utf8), Array(stored.rawValue.utf8)) { return true }
        let secrets = self.secrets(for: key.orderType)
        return secrets.isToken(shown, of: key) && secrets.isToken(stored.rawValue, of: key)
    }

    /// Reads the shared file and uses its secrets if they changed. Those of brands are loaded with their brands.
    ///
    /// Blocks, since it reads a file: call it on a thread that may block.
    /// - Parameter isForced: true to include a change that was made only just now.
    public func look(isForced: Bool) -> Event? {
        guard let read = self.read else { return nil }
        let content = Result { () throws(TokenSecrets.Failure) in try read() }
        return self.current.withLock { current in
            switch current.file.look(content, isForced: isForced) {
            case .take(let secrets):
                current.shared = secrets
                return .loaded
            case .tell(let reason): return .failed(reason)
            case .nothing: return nil
            }
        }
    }
}

/// Decides when the content of a file of secrets is used.
///
/// A change counts once it was seen the same twice: a file that is being written has until the next look.
struct SecretsFile {
    enum Decision {
        case nothing
        case take(TokenSecrets)
        case tell(String)
    }

    private var taken: [UInt8]
    private var seen: [UInt8]
    /// The reason that was logged last.
    private var logged: String?

    init(taken: [UInt8]) {
        self.taken = taken
        self.seen = taken
    }

    mutating func look(_ content: Result<[UInt8], TokenSecrets.Failure>, isForced: Bool) -> Decision {
        switch content {
        case .failure(let error): return self.tell(error.message)
        case .success(let bytes):
            defer { self.seen = bytes }
            // After a failure the same file is loaded again, which ends the alarm.
            guard bytes != self.taken || self.logged != nil else { return .nothing }
            guard isForced || bytes == self.seen else { return .nothing }
            do {
                let secrets = try TokenSecrets(file: bytes)
                self.taken = bytes
                self.logged = nil
                return .take(secrets)
            } catch {
                return self.tell(error.message)
            }
        }
    }

    private mutating func tell(_ reason: String) -> Decision {
        guard self.logged != reason else { return .nothing }
        self.logged = reason
        return .tell(reason)
    }
}
