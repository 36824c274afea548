/// The reason why a notification has no answer, or a client cannot be made.
///
/// Two are equal when their codes are.
public struct APNSError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of failure.
    public enum Code: String, Hashable, Sendable, CaseIterable {
        /// APNs did not answer within the request's deadline, although the connection lived; the stream was cancelled.
        case timeout
        /// APNs did not answer within the request's deadline, and the connection gave no sign of life since it started.
        case silent
        /// No stream was free within the time that a request may wait; it was never sent.
        case notStarted
        /// The connection ended while the request was in flight; whether it was processed is not known.
        case connectionLost
        /// No connection could be made: name resolution, TCP.
        case connecting
        /// No connection could be made: certificates, protocol versions.
        case tls
        /// APNs ended the stream without a whole answer, or does not speak HTTP/2.
        case protocolViolation
        /// The client's queue is full; the notification was not sent.
        case queueFull
        /// The client is closed, or was told to take back what waits: the notification was not sent, or its answer not
        /// awaited.
        case closed
        /// An address, certificate or key that cannot be used.
        case configuration
        /// The provider token could not be signed, or APNs' TLS refused the certificate as revoked, expired or unknown.
        case credential
    }

    public let code: Code
    /// The operation that failed, and the failure.
    public let message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { self.message }
    public static func == (left: Self, right: Self) -> Bool { left.code == right.code }
    public func hash(into hasher: inout Hasher) { hasher.combine(self.code) }
}
