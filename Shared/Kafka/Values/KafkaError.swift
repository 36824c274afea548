import CRDKafka

/// A failure between us and Kafka. Two are equal when their codes are.
public struct KafkaError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The failures that a caller can distinguish; any other answer of a broker is `.refused`.
    public enum Code: String, Hashable, Sendable {
        /// A property, a file of properties or a bootstrap address is wrong.
        case configuration
        /// The C library could not allocate or start a thread.
        case outOfMemory
        /// The handle is closed.
        case closed
        /// The waiting task was cancelled.
        case cancelled
        /// A second caller waits on something that allows only one.
        case busy
        /// The producer's queue stayed full for the whole wait, or the queue of blocking calls is full.
        case queueFull
        /// A message is larger than `message.max.bytes` here or at the broker.
        case messageTooLarge
        /// The topic or partition does not exist.
        case unknownTopic
        /// The partition does not extend to this offset, or its offsets started over.
        case outOfRange
        /// No broker can be reached.
        case transport
        /// No answer in time.
        case timedOut
        /// TLS, SASL or an access list refused.
        case authorization
        /// The group moved on: the generation is over or the member is unknown.
        case rebalanced
        /// Another member took our `group.instance.id`.
        case fenced
        /// The broker does not offer this request.
        case unsupported
        /// Any other answer; `message` has the library's own text.
        case refused
    }

    public let code: Code
    /// The action in gerund form, its object and the reason. Never a secret.
    public let message: String
    /// True if a retry may help.
    public let isRetriable: Bool
    /// True if this handle can no longer be used: close it, make a new one.
    public let isFatal: Bool
    /// librdkafka's own number; 0 if the error is ours. Source: rdkafka.h, rd_kafka_resp_err_t
    let libraryCode: Int32

    public init(
        _ code: Code, _ message: String, isRetriable: Bool = false, isFatal: Bool = false, libraryCode: Int32 = 0
    ) {
        self.code = code
        self.message = message
        self.isRetriable = isRetriable
        self.isFatal = isFatal
        self.libraryCode = libraryCode
    }

    public static func == (left: Self, right: Self) -> Bool { left.code == right.code }
    public func hash(into hasher: inout Hasher) { hasher.combine(self.code) }
    public var description: String { "KafkaError.\(self.code): \(self.message)" }
}

extension KafkaError {
    /// Maps librdkafka's code.
    ///
    /// - Parameter action: gerund and object, "committing 3 positions".
    init(_ library: rd_kafka_resp_err_t, _ action: String, reason: String? = nil) {
        let code = Code(library)
        let text = unsafe rd_kafka_err2str(library)
        let words = unsafe reason ?? text.map { unsafe String(cString: $0) } ?? "code \(library.rawValue)"
        self.init(
            code, "\(action): \(words)", isRetriable: code.isRetriable,
            isFatal: library == RD_KAFKA_RESP_ERR__FATAL || code == .fenced, libraryCode: library.rawValue)
    }
}

extension KafkaError.Code {
    /// Source: rdkafka.h, rd_kafka_resp_err_t
    init(_ library: rd_kafka_resp_err_t) {
        self =
            switch library {
            case RD_KAFKA_RESP_ERR__INVALID_ARG, RD_KAFKA_RESP_ERR__NOT_CONFIGURED: .configuration
            case RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE: .outOfMemory
            case RD_KAFKA_RESP_ERR__DESTROY, RD_KAFKA_RESP_ERR__PURGE_QUEUE, RD_KAFKA_RESP_ERR__PURGE_INFLIGHT: .closed
            case RD_KAFKA_RESP_ERR__QUEUE_FULL: .queueFull
            case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE: .messageTooLarge
            case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION,
                RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
                .unknownTopic
            case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE, RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET: .outOfRange
            case RD_KAFKA_RESP_ERR__TRANSPORT, RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, RD_KAFKA_RESP_ERR__RESOLVE,
                RD_KAFKA_RESP_ERR__WAIT_COORD, RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION,
                RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE, RD_KAFKA_RESP_ERR_NOT_COORDINATOR:
                .transport
            case RD_KAFKA_RESP_ERR__TIMED_OUT, RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE,
                RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
                .timedOut
            case RD_KAFKA_RESP_ERR__SSL, RD_KAFKA_RESP_ERR__AUTHENTICATION,
                RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
                RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
                .authorization
            case RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
                RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS, RD_KAFKA_RESP_ERR__ASSIGNMENT_LOST,
                RD_KAFKA_RESP_ERR__STATE, RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED:
                .rebalanced
            case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID, RD_KAFKA_RESP_ERR__FENCED: .fenced
            case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE, RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION: .unsupported
            default: .refused
            }
    }

    var isRetriable: Bool {
        switch self {
        case .queueFull, .unknownTopic, .transport, .timedOut, .rebalanced: true
        case .configuration, .outOfMemory, .closed, .cancelled, .busy, .messageTooLarge, .authorization, .fenced,
            .unsupported, .outOfRange, .refused:
            false
        }
    }
}
