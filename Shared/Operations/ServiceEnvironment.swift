import CoreMetrics
public import Kafka
public import Logging
public import NIOPosix
public import Redis

/// The common parts from which a service is built.
public struct ServiceEnvironment: Sendable {
    public let common: CommonSettings
    public let group: MultiThreadedEventLoopGroup
    public let metrics: MetricsRegistry
    public let readiness: Readiness
    public let liveness: Liveness
    public let logger: Logger
    /// Takes the spans of traced changes; nil if there is no collector.
    public let spans: SpanExporter?
    /// The refusals by brokers that any handle met.
    let refusals = KafkaRefusalBook()
    private let kafkaTimes: AnswerTimes
    private let redisTimes: AnswerTimes

    public init(
        common: CommonSettings, group: MultiThreadedEventLoopGroup, metrics: MetricsRegistry, readiness: Readiness,
        liveness: Liveness = Liveness(), logger: Logger, spans: SpanExporter? = nil
    ) {
        self.common = common
        self.group = group
        self.metrics = metrics
        self.readiness = readiness
        self.liveness = liveness
        self.logger = logger
        self.spans = spans
        self.kafkaTimes = AnswerTimes("waybill_kafka_answer_seconds", factory: metrics)
        self.redisTimes = AnswerTimes("waybill_redis_answer_seconds", factory: metrics)
    }

    /// The environment of a command that runs once: its metrics and its readiness are shown nowhere.
    ///
    /// The log goes to standard error, since standard output is for the command's result. All of it is written, however
    /// slowly it is read.
    ///
    /// - Parameter name: the name of the program, for its log.
    public init(command name: String, _ common: CommonSettings) {
        let logger = Logger(label: name) { label in
            LineLogHandler(label: label, format: common.logFormat, level: common.logLevel) {
                StandardStream.error.write($0)
            }
        }
        self.init(
            common: common, group: .singleton, metrics: MetricsRegistry(), readiness: Readiness(conditions: []),
            logger: logger)
    }

    /// Returns the reporter of an upstream's state.
    public func upstream(_ name: String) -> UpstreamState {
        UpstreamState(name, readiness: self.readiness, metrics: self.metrics)
    }

    /// The configuration for Redis, with the times of answers going to the metrics.
    public var redis: RedisConfiguration {
        var configuration = self.common.redis
        configuration.onAnswer = self.redisTimes.record
        return configuration
    }

    /// The configuration for Kafka, with log lines of librdkafka and errors of the brokers going to the log.
    public var kafka: KafkaConfiguration {
        var configuration = self.common.kafka
        configuration.onAnswer = self.kafkaTimes.record
        let file = configuration.file ?? "a file that \(SettingKey.kafkaProperties.rawValue) names"
        configuration.onEvent = { [logger, refusals] event in
            guard refusals.record(event) else { return }
            let level: Logger.Level =
                switch event.severity {
                case .error: .error
                case .warning: .warning
                case .info: .info
                case .debug: .debug
                }
            var metadata: Logger.Metadata = ["kind": "\(event.kind.rawValue)", "text": "\(event.message)"]
            if event.kind == .denied {
                metadata["action"] =
                    "\(event.denial?.right.map { "grant \($0)" } ?? "security.protocol, sasl.* and ssl.* in \(file)")"
            }
            logger.log(level: level, "Kafka client event", metadata: metadata)
        }
        return configuration
    }

    /// The same for a consumer: readiness reflects its membership in the group.
    public var joining: KafkaConfiguration {
        var configuration = self.kafka
        let log = configuration.onEvent
        let moves = Dictionary(
            uniqueKeysWithValues: [KafkaEvent.Kind.assigned, .revoked, .lost].map { kind in
                let dimensions = [("kind", kind.rawValue)]
                return (kind, Counter(label: "waybill_rebalances_total", dimensions: dimensions, factory: self.metrics))
            })
        configuration.onEvent = { [readiness] event in
            moves[event.kind]?.increment()
            // The log is first, since the reason for readiness is looked for there.
            log?(event)
            if event.kind == .assigned { readiness.met(WorkerCondition.joined) }
            // A broker's refusal says nothing about the other brokers, which may admit us.
            if event.kind == .denied { readiness.explain(WorkerCondition.joined, event.message) }
        }
        return configuration
    }

    /// Returns the same for a producer, whose deliveries end within a limit unless the operator's properties say
    /// otherwise.
    ///
    /// A client or a shutdown that waits for an acknowledgement must not wait forever.
    public func producing(within limit: Duration) -> KafkaConfiguration { Self.bounded(self.kafka, within: limit) }

    /// Source: librdkafka CONFIGURATION.md: `message.timeout.ms` and `delivery.timeout.ms` are one property
    static func bounded(_ configuration: KafkaConfiguration, within limit: Duration) -> KafkaConfiguration {
        let names = ["delivery.timeout.ms", "message.timeout.ms"]
        guard !names.contains(where: { configuration.properties[$0] != nil }) else { return configuration }
        var bounded = configuration
        bounded.properties[names[0]] = String(max(1, Int64(limit / .milliseconds(1))))
        return bounded
    }
}

/// The entries in `/readyz` that several services have.
public enum WorkerCondition {
    /// Met once a service for clients accepts connections.
    public static let listener = "listener"
    /// Met once the consumer group has admitted this worker.
    public static let joined = "consumer-group"
    /// A remark as long as nothing gets done.
    public static let upstreams = "upstreams"
}

extension KafkaConfiguration {
    /// Returns the configuration with a call at each assignment: on the polling thread, so before any record of the
    /// partitions that came.
    public func onAssignment(_ call: @escaping @Sendable () -> Void) -> KafkaConfiguration {
        var configuration = self
        configuration.onEvent = { [onEvent] event in
            if event.kind == .assigned { call() }
            onEvent?(event)
        }
        return configuration
    }
}
