/// The conditions of readiness that the workers on Kafka have in common.
public enum WorkerCondition {
    /// Met once the consumer group has admitted this worker.
    public static let joined = "consumer-group"
    /// Unmet, which makes a worker unready, as long as nothing gets done.
    public static let upstreams = "upstreams"
}
