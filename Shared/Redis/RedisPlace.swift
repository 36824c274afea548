/// The destination, in a cluster, of a command that names no key of its own.
public enum RedisPlace: Hashable, Sendable {
    /// To the master that serves a key.
    case key(String)
    /// To a master of `RedisTopology`.
    case master(RedisMaster)
    /// To all masters that can be reached; the answer is the first one that is not an error.
    case everyMaster
}
