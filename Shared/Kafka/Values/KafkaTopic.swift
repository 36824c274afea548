/// A topic to be created.
public struct KafkaTopic: Hashable, Sendable {
    public var name: String
    public var partitions: Int
    /// -1 leaves it to the broker's `default.replication.factor`.
    public var replication: Int
    /// The topic's own settings, such as `cleanup.policy=compact` or `max.message.bytes`.
    public var configuration: [String: String]

    public init(name: String, partitions: Int, replication: Int = -1, configuration: [String: String] = [:]) {
        self.name = name
        self.partitions = partitions
        self.replication = replication
        self.configuration = configuration
    }
}
