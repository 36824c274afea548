import Synchronization

/// A Lua script that runs in Redis. Make it once and keep it: it remembers the digest under which Redis knows it.
///
/// The digest is the answer to SCRIPT LOAD; it depends on the source only, so it holds for every server.
public final class RedisScript: Sendable {
    /// The Lua source.
    public let source: String
    private let digest = Mutex<String?>(nil)

    public init(_ source: String) { self.source = source }

    /// The SHA-1 of the source in hex, nil until it has been loaded once.
    var knownDigest: String? { self.digest.withLock { $0 } }

    /// Stores the answer to SCRIPT LOAD.
    func learn(_ digest: String) { self.digest.withLock { $0 = digest } }
}

/// One run of a script with its keys and arguments.
public struct RedisInvocation: Sendable {
    /// The script to run.
    public let script: RedisScript
    /// `KEYS`; all in one slot, see Design §7.
    public let keys: [String]
    /// `ARGV`
    public let arguments: [RedisArgument]

    public init(_ script: RedisScript, keys: [String], arguments: [RedisArgument]) {
        self.script = script
        self.keys = keys
        self.arguments = arguments
    }

    /// EVALSHA. Redis does not know the script until it has been loaded once.
    var command: RedisCommand { self.command("EVALSHA", self.script.knownDigest ?? "") }

    /// EVAL: runs, and loads, the script also on a server that does not know it.
    var commandWithSource: RedisCommand { self.command("EVAL", self.script.source) }

    private func command(_ name: String, _ script: String) -> RedisCommand {
        var arguments: [RedisArgument] = [.string(name), .string(script), .integer(Int64(self.keys.count))]
        arguments.reserveCapacity(3 + self.keys.count + self.arguments.count)
        for key in self.keys { arguments.append(.string(key)) }
        arguments += self.arguments
        return RedisCommand(arguments)
    }
}
