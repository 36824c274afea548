/// An event that a service may want to log: librdkafka's log lines, refusals by a broker, changes of the assignment.
public struct KafkaEvent: Sendable, CustomStringConvertible {
    /// The severity; `error` does not mean that work stopped: the handle keeps retrying unless a call throws.
    public enum Severity: String, Sendable { case error, warning, info, debug }

    /// The subject of the event.
    public enum Kind: String, Sendable {
        /// A line of librdkafka's own log.
        case log
        /// An error that is handled by a retry.
        case error
        /// The same, because TLS, SASL or an access list refused: the configuration must be corrected.
        case denied
        /// An operation that was refused works now.
        case granted
        /// Partitions were assigned to this consumer.
        case assigned
        /// Partitions were revoked from this consumer in an orderly way.
        case revoked
        /// Partitions went to another member before we could finish.
        case lost
        /// The worker is slow; fetching is paused until it has caught up.
        case paused
        /// Fetching continues.
        case resumed
    }

    public let severity: Severity
    public let kind: Kind
    /// One line, no secrets.
    public let message: String
    /// The right that is denied or granted.
    public var denial: KafkaDenial?

    public var description: String { "\(self.severity.rawValue) \(self.kind.rawValue): \(self.message)" }
}
