/// The entries in `/readyz` that several services have.
public enum WorkerCondition {
    /// Met once a service for clients accepts connections.
    public static let listener = "listener"
    /// Met once the consumer group has admitted this worker.
    public static let joined = "consumer-group"
    /// A remark as long as nothing gets done.
    public static let upstreams = "upstreams"
}
