/// The conditions of readiness that several services have.
public enum WorkerCondition {
    /// Met once a service for clients accepts connections.
    public static let listener = "listener"
    /// Met once the consumer group has admitted this worker.
    public static let joined = "consumer-group"
    /// Unmet, which makes a worker unready, as long as nothing gets done.
    public static let upstreams = "upstreams"
}
