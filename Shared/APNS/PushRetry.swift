/// The reason for sending a notification again, and what the failure says about others.
public struct PushRetry: Hashable, Sendable {
    /// The extent of the failure, as far as the outcome itself shows.
    public enum Scope: Hashable, Sendable, CaseIterable {
        /// This device alone: it backs off while others continue.
        case device
        /// The connection or its provider token, which the client replaces: another connection may work immediately.
        case connection
        /// APNs as a whole, or the network path to it.
        case service
    }

    /// The kind of outcome.
    public enum Cause: Hashable, Sendable {
        case answer(status: Int)
        /// Something in APNs' place answered: see `PushAnswer.isForeign`.
        case foreign(status: Int)
        case error(APNSError.Code)
    }

    /// Text for people: status and reason, or the error if there is no answer. Contains no token and no device.
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

    /// Returns a retry for a notification that another server than APNs answered.
    static func foreign(_ status: Int) -> PushRetry {
        PushRetry(
            reason: "status \(status) is not an answer of APNs: check WAYBILL_APNS_URL, proxy and name resolution",
            scope: .service, cause: .foreign(status: status))
    }

    /// Returns a retry for a notification that was refused because of its credential while others with that credential
    /// are delivered: the refusal concerns one host or one connection.
    public static func contradicted(_ reason: String) -> PushRetry {
        PushRetry(reason: reason, scope: .connection, cause: .answer(status: 403))
    }
}
