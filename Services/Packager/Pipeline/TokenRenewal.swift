import Model
import Tokens

/// Decides which stored orders get a new token: those whose token was minted under another secret than the one that
/// mints, and on demand those that brought one.
struct TokenRenewal: Sendable {
    /// The secrets of the brand.
    let secrets: TokenSecrets
    /// Secrets that are in no file of a service any more.
    var withdrawn: TokenSecrets?
    /// True to replace also tokens that were minted under none of these secrets.
    var includesOthers = false

    /// - Returns: nil for an order that keeps its token.
    func token(for state: OrderState) -> AuthenticationToken? {
        let new = self.secrets.token(for: state.key)
        guard new != state.token else { return nil }
        let old = state.token.rawValue
        let isMinted =
            self.secrets.isToken(old, of: state.key) || self.withdrawn?.isToken(old, of: state.key) ?? false
        return isMinted || self.includesOthers ? new : nil
    }

    /// Names the run for the next one, which goes on if it is for the same.
    var purpose: String {
        let withdrawn = self.withdrawn.map { ["without"] + $0.fingerprints } ?? []
        return (["tokens"] + self.secrets.fingerprints + withdrawn + (self.includesOthers ? ["all"] : []))
            .joined(separator: " ")
    }
}
