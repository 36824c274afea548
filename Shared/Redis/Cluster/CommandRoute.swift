import NIOCore

/// The destination of a command in a cluster.
enum CommandRoute: Hashable {
    /// To the master of the slot of its keys.
    case slot(Int)
    /// To this node.
    case node(NodeAddress)
    /// To some master.
    case anyMaster
    /// To all masters.
    case everyMaster(Merge)

    /// The way in which the answers of all masters are merged.
    enum Merge: Hashable {
        /// The first error, else the first answer.
        case allMustSucceed
        /// The first answer that is not an error, else the first error; a master that cannot be reached is left out.
        case anyMaySucceed
        /// The lowest time: any later stamp, on any master, is higher.
        case lowestTime
        /// The sum of the numbers.
        case sum
    }
}

extension CommandRoute {
    /// Reads the keys of a command.
    ///
    /// - Throws: `RedisError` with code `.unroutable` if no key is known to be in it, or keys of several slots.
    init(_ command: RedisCommand) throws(RedisError) {
        let arguments = command.arguments
        if case .place(let place)? = arguments.last {
            switch place {
            case .key(let key): self = .slot(HashSlot.of(key.utf8))
            case .master(let master): self = .node(master.address)
            }
            return
        }
        let name = (arguments[0].text ?? "").uppercased()
        switch name {
        case "EVALSHA", "EVAL", "EVALSHA_RO", "EVAL_RO", "FCALL", "FCALL_RO":
            guard arguments.count >= 3, let count = arguments[2].text.flatMap({ Int($0) }),
                0 <= count, count <= arguments.count - 3
            else { throw Self.error(name, "the number of its keys cannot be read") }
            if count == 0 {
                self = .anyMaster
            } else {
                self = .slot(try Self.slot(of: arguments[3..<(3 + count)], name))
            }
        case "PING", "ECHO", "INFO", "ROLE", "CLUSTER", "CLIENT", "COMMAND", "ACL", "LASTSAVE": self = .anyMaster
        case "TIME": self = .everyMaster(.lowestTime)
        case "FLUSHALL", "FLUSHDB": self = .everyMaster(.allMustSucceed)
        case "SCRIPT": self = .everyMaster(.anyMaySucceed)
        case "DBSIZE": self = .everyMaster(.sum)
        case "DEL", "EXISTS", "UNLINK", "TOUCH", "MGET", "WATCH", "SINTER", "SUNION", "SDIFF", "PFCOUNT", "RENAME":
            self = .slot(try Self.slot(of: arguments.dropFirst(), name))
        // The last argument is the time to wait.
        case "BLPOP", "BRPOP", "BZPOPMAX", "BZPOPMIN":
            self = .slot(try Self.slot(of: arguments.dropFirst().dropLast(), name))
        default:
            guard Self.keyedByFirst.contains(name), arguments.count >= 2 else {
                throw Self.error(name, "the position of its key is unknown")
            }
            self = .slot(try Self.slot(of: arguments[1...1], name))
        }
    }

    /// Commands whose first argument is their only key.
    ///
    /// Source: Redis COMMAND DOCS, key specifications of 7.0
    private static let keyedByFirst: Set<String> = [
        "APPEND", "DECR", "DECRBY", "DUMP", "EXPIRE", "EXPIREAT", "GET", "GETDEL", "GETEX", "GETRANGE", "GETSET",
        "HDEL", "HEXISTS", "HGET", "HGETALL", "HINCRBY", "HKEYS", "HLEN", "HMGET", "HMSET", "HSCAN", "HSET", "HSETNX",
        "HSTRLEN", "HVALS", "INCR", "INCRBY", "LINDEX", "LLEN", "LPOP", "LPUSH", "LRANGE", "LREM", "LTRIM", "PERSIST",
        "PEXPIRE", "PEXPIREAT", "PSETEX", "PTTL", "RESTORE", "RPOP", "RPUSH", "SADD", "SCARD", "SET", "SETEX", "SETNX",
        "SETRANGE", "SISMEMBER", "SMEMBERS", "SMISMEMBER", "SPOP", "SRANDMEMBER", "SREM", "SSCAN", "STRLEN", "TTL",
        "TYPE", "ZADD", "ZCARD", "ZCOUNT", "ZINCRBY", "ZMSCORE", "ZPOPMAX", "ZPOPMIN", "ZRANGE", "ZRANGEBYSCORE",
        "ZRANK", "ZREM", "ZREMRANGEBYRANK", "ZREMRANGEBYSCORE", "ZREVRANGE", "ZSCAN", "ZSCORE",
    ]

    private static func slot(of keys: some Collection<RedisArgument>, _ name: String) throws(RedisError) -> Int {
        var slot: Int?
        for key in keys {
            guard let found = key.slot else { throw Self.error(name, "a key is among encoded arguments") }
            guard slot == nil || slot == found else { throw Self.error(name, "its keys are in several slots") }
            slot = found
        }
        guard let slot else { throw Self.error(name, "it has no key") }
        return slot
    }

    private static func error(_ name: String, _ reason: String) -> RedisError {
        RedisError(.unroutable, "finding the node for \(name): \(reason)")
    }
}

extension RedisArgument {
    /// The slot of a key; nil if it is several arguments or none.
    fileprivate var slot: Int? {
        switch self {
        case .string(let text): HashSlot.of(text.utf8)
        case .bytes(let bytes): HashSlot.of(bytes)
        case .buffer(let buffer): HashSlot.of(buffer.readableBytesView)
        case .integer(let value): HashSlot.of(String(value).utf8)
        case .encoded, .place: nil
        }
    }

    /// A name or a number; nil for anything else.
    fileprivate var text: String? {
        switch self {
        case .string(let text): text
        case .bytes(let bytes): String(validating: bytes, as: UTF8.self)
        case .integer(let value): String(value)
        case .buffer, .encoded, .place: nil
        }
    }
}
