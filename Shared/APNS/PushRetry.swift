/// Why a notification is to be sent again, and what the failure says about others.
public struct PushRetry: Hashable, Sendable {
    /// Whom the failure concerns, as far as the outcome itself tells.
    public enum Scope: Hashable, Sendable, CaseIterable {
        /// This device alone: it backs off, others go on.
        case device
        /// The connection or its provider token, which the client replaces: another connection may do at once.
        case connection
        /// APNs as a whole, or the way there.
        case service
    }

    /// What the outcome was.
    public enum Cause: Hashable, Sendable {
        case answer(status: Int)
        case error(APNSError.Code)
    }

    /// For people: status and reason, or what happened instead. Never holds a token or a device.
    public var reason: String
    public var scope: Scope
    /// `Retry-After` of the answer; bounded by `RetrySchedule`, not here.
    public var afterSeconds: Int?
    public var cause: Cause

    public init(reason: String, scope: Scope, afterSeconds: Int? = nil, cause: Cause) {
        self.reason = reason
        self.scope = scope
        self.afterSeconds = afterSeconds
        self.cause = cause
    }

    /// Another try for a notification that was refused for its credential while others of that credential are
    /// delivered: the refusal was one host's or one connection's.
    public static func contradicted(_ reason: String) -> PushRetry {
        PushRetry(reason: reason, scope: .connection, cause: .answer(status: 403))
    }
}
