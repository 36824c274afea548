/// The facts about a server from its answer to INFO.
///
/// Source: Redis INFO, sections "Server", "Memory" and "Replication"
public struct RedisServerInformation: Hashable, Sendable {
    /// A version of Redis; anything after the second number does not matter here.
    public struct Version: Hashable, Sendable, Comparable, CustomStringConvertible {
        let major: Int
        let minor: Int
        /// As the server reports it.
        public let description: String

        /// Parses `7.0.15`; nil for anything that does not begin with two numbers.
        init?(_ text: some StringProtocol) {
            let parts = text.split(separator: ".")
            guard parts.count >= 2, let major = Int(parts[0]), let minor = Int(parts[1]) else { return nil }
            self.major = major
            self.minor = minor
            self.description = String(text)
        }

        public static func < (left: Self, right: Self) -> Bool { (left.major, left.minor) < (right.major, right.minor) }
    }

    /// The oldest version that Waybill works with: before it, `min-replicas-to-write` does not hold back the writes of
    /// scripts, which all writes of orders are. Source: redis/redis#10160
    static let leastVersion = Version("7.0")

    /// Nil if the server does not report it.
    public private(set) var version: Version?
    /// Bytes that count against `maxmemory`; nil if the server does not report it.
    public private(set) var usedMemory: Int64?
    /// `maxmemory` in bytes; 0 for no limit, nil if the server does not report it.
    public private(set) var maxMemory: Int64?
    /// `maxmemory-policy`; nil if the server does not report it.
    public private(set) var evictionPolicy: String?
    /// Differs for another process, and for one that was promoted to master again; nil if the server does not report
    /// it.
    public private(set) var identifier: String?
    /// True if it reports `master_replid`, which reveals a fall-back to older data.
    public private(set) var hasHistory = false
    private(set) var isReplica = false
    /// True if it keeps an append-only file; nil if it does not report that.
    public private(set) var hasAppendOnlyFile: Bool?
    /// Replicas that are connected to it; nil if it does not report them.
    public private(set) var replicas: Int?
    /// The oldest version that Waybill works with, for people.
    public static var needed: String { Self.leastVersion.map { "\($0)" } ?? "" }

    public init(_ text: String) {
        var notCounted: Int64 = 0
        // By bytes: the boundaries of characters would cost ten times as much, each second.
        for bytes in text.utf8.split(whereSeparator: { $0 == UInt8(ascii: "\r") || $0 == UInt8(ascii: "\n") }) {
            guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")) else { continue }
            let line = Substring(bytes)
            let value = line[bytes.index(after: colon)...]
            switch line[..<colon] {
            case "redis_version": self.version = Version(value)
            case "used_memory": self.usedMemory = Int64(value)
            case "mem_not_counted_for_evict": notCounted = Int64(value) ?? 0
            case "maxmemory": self.maxMemory = Int64(value)
            case "maxmemory_policy": self.evictionPolicy = String(value)
            case "aof_enabled": self.hasAppendOnlyFile = value == "1"
            case "connected_slaves": self.replicas = Int(value)
            case "role": self.isReplica = value == "slave"
            case "run_id", "master_replid":
                // A promoted server gets a new `master_replid`.
                self.identifier = (self.identifier ?? "") + line + " "
                if line.hasPrefix("master_replid:") { self.hasHistory = !value.isEmpty }
            default: break
            }
        }
        self.usedMemory = self.usedMemory.map { max(0, $0 &- notCounted) }
    }

    /// The reason why the server cannot be used, nil if it can or does not report its version.
    var refusal: String? {
        guard let version, let least = Self.leastVersion, version < least else { return nil }
        return "the server is Redis \(version), version \(least) or later is needed"
    }
}
