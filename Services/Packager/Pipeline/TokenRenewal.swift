import Model
import Tokens

/// Decides which stored orders get a new token: those whose token was minted under a secret other than the one that
/// mints, and on request those that brought one.
struct TokenRenewal: Sendable {
    /// The secrets of the brand.
    let secrets: TokenSecrets
    /// Secrets that were removed from all files of the services.
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

    /// The name of the run, by which the next run continues it if it has the same purpose.
    var purpose: String {
        let withdrawn = self.withdrawn.map { ["without"] + $0.fingerprints } ?? []
        return (["tokens"] + self.secrets.fingerprints + withdrawn + (self.includesOthers ? ["all"] : []))
            .joined(separator: " ")
    }
}
