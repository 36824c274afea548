/// The reason for sending a notification again, and what the failure says about others.
public struct PushRetry: Hashable, Sendable {
    /// The parties that the failure concerns, as far as the outcome itself shows.
    public enum Scope: Hashable, Sendable, CaseIterable {
        /// This device alone: it backs off, others continue.
        case device
        /// The connection or its provider token, which the client replaces: another connection may work at once.
        case connection
        /// APNs as a whole, or the network path to it.
        case service
    }

    /// The kind of outcome.
    public enum Cause: Hashable, Sendable {
        case answer(status: Int)
        case error(APNSError.Code)
    }

    /// For people: status and reason, or the event instead of an answer. Never holds a token or a device.
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

    /// A retry for a notification that was refused for its credential while others with that credential are delivered:
    /// the refusal came from one host or one connection.
    public static func contradicted(_ reason: String) -> PushRetry {
        PushRetry(reason: reason, scope: .connection, cause: .answer(status: 403))
    }
}
