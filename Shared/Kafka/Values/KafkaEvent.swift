import CRDKafka

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

/// An operation that brokers refuse, in terms of the permission it needs.
public enum KafkaDenial: Hashable, Sendable {
    /// TLS or SASL: the brokers do not know our identity, or do not accept it.
    case access
    case read(topic: String)
    case write(topic: String)
    case group(String)
    /// An idempotent producer gets no producer ID: it may write to none of its topics.
    case idempotence(topics: [String])

    /// The right that an administrator has to grant; nil for `access`, which is corrected in our own configuration.
    public var right: String? {
        switch self {
        case .access: nil
        case .read(let topic): "Read on topic \(topic)"
        case .write(let topic): "Write on topic \(topic)"
        case .group(let group): "Read on group \(group)"
        case .idempotence(let topics):
            "Write on topic \(topics.isEmpty ? "…" : topics.joined(separator: " and "))"
                + " (brokers before 2.8 require IdempotentWrite on the cluster as well)"
        }
    }
}

/// The use of a handle, which determines the subject of a refusal.
enum KafkaRole: Sendable {
    case member(group: String, topics: [String])
    case producer(topics: [String])
    case reader
    case other
}

extension KafkaDenial {
    /// The refusal that an error represents; nil if it is not one.
    ///
    /// - Parameter topic: the topic that the error came with.
    init?(_ error: KafkaError, _ role: KafkaRole, topic: String? = nil) {
        guard error.code == .authorization else { return nil }
        switch (rd_kafka_resp_err_t(rawValue: error.libraryCode), role) {
        case (RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, .member(let group, _)): self = .group(group)
        case (RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, .member(_, let topics)):
            self = .read(topic: topic ?? topics.joined(separator: " and "))
        case (RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, .reader):
            guard let topic else { return nil }
            self = .read(topic: topic)
        case (RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, .producer(let topics)):
            self = .write(topic: topic ?? topics.joined(separator: " and "))
        case (RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, .producer(let topics)):
            self = .idempotence(topics: topics)
        default: self = .access
        }
    }
}

extension KafkaEvent {
    /// An error that is handled by a retry, or a refusal, which says what to grant.
    init(_ severity: Severity, _ error: KafkaError, _ role: KafkaRole, topic: String? = nil) {
        guard let denial = KafkaDenial(error, role, topic: topic) else {
            self.init(severity: severity, kind: .error, message: error.message)
            return
        }
        let mend = denial.right.map { ": grant \($0)" } ?? ""
        self.init(severity: .error, kind: .denied, message: error.message + mend, denial: denial)
    }
}
