/// Something a service may want to log: what librdkafka says, what a broker refuses, which partitions come and go.
public struct KafkaEvent: Sendable, CustomStringConvertible {
    /// How grave; `error` does not mean that work stopped: the handle goes on trying unless a call throws.
    public enum Severity: String, Sendable { case error, warning, info, debug }

    /// What it is about.
    public enum Kind: String, Sendable {
        /// A line of librdkafka's own log.
        case log
        /// An error that is survived by trying again.
        case error
        /// The same, because TLS, SASL or an access list said no: somebody must mend the configuration.
        case denied
        /// A refused thing works.
        case granted
        /// Partitions came to this consumer.
        case assigned
        /// Partitions were taken from this consumer in good order.
        case revoked
        /// Partitions went to somebody else before we could finish.
        case lost
        /// The worker is slow; fetching stops until it has caught up.
        case paused
        /// Fetching goes on.
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
