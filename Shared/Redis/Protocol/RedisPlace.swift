/// The destination, in a cluster, of a command that has no key.
public enum RedisPlace: Hashable, Sendable {
    /// To the master that serves a key.
    case key(String)
    /// To a master of `RedisTopology`.
    case master(RedisMaster)
}

/// A master of a cluster.
public struct RedisMaster: Hashable, Sendable, CustomStringConvertible {
    let address: NodeAddress

    init(_ address: NodeAddress) { self.address = address }

    /// `host:port`.
    public var description: String { self.address.description }
}
