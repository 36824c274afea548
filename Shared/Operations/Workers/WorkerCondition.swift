/// The conditions of readiness that the workers on Kafka have in common.
public enum WorkerCondition {
    /// What readiness waits for: that the consumer group has let this worker in.
    public static let joined = "consumer-group"
    /// What makes a worker unready while it lasts: that nothing gets done.
    public static let upstreams = "upstreams"
}
