/// The reason why a notification has no answer, or a client cannot be created.
///
/// Two errors are equal if their codes are equal.
public struct APNSError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of failure.
    public enum Code: String, Hashable, Sendable, CaseIterable {
        /// APNs did not answer before the request's deadline although the connection was alive (the stream was
        /// cancelled), or refused the request unprocessed until then.
        case timeout
        /// APNs did not answer before the request's deadline, and no byte arrived on the connection after the request's
        /// start.
        case silent
        /// No stream was free within the time that a request may wait; the notification was never sent.
        case notStarted
        /// The connection ended while the request was in flight; APNs may have processed it.
        case connectionLost
        /// No connection could be established: name resolution, TCP, proxy.
        case connecting
        /// No connection could be established: certificates, protocol versions.
        case tls
        /// APNs ended the stream without a complete answer, or violated HTTP/2.
        case protocolViolation
        /// The client's queue is full; the notification was not sent.
        case queueFull
        /// The client is closed, or recalled its queue: the notification was not sent, or was refused unprocessed.
        case closed
        /// An address, certificate or key that cannot be used.
        case configuration
        /// The provider token could not be signed, or TLS refused the certificate as revoked, expired or unknown.
        case credential
    }

    public let code: Code
    /// The operation that failed, and the reason.
    public let message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { self.message }
    public static func == (left: Self, right: Self) -> Bool { left.code == right.code }
    public func hash(into hasher: inout Hasher) { hasher.combine(self.code) }
}
