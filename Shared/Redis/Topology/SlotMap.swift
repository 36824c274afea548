/// The master that serves each slot of a cluster, from a node's latest answer and later redirections.
struct SlotMap: Hashable, Sendable {
    /// More nodes than any cluster has (the specification suggests 1000 at most); any beyond are ignored.
    static let nodeLimit = 2000
    private static let nobody = UInt16.max

    /// Masters, in the order in which they were named; some may no longer serve a slot.
    private(set) var masters: [NodeAddress] = []
    /// Replicas: they can be asked for the map when no master answers.
    private(set) var replicas: [NodeAddress] = []
    /// For each slot an index of `masters`.
    private var owners = [UInt16](repeating: Self.nobody, count: HashSlot.count)

    /// An empty map.
    init() {}

    /// Reads the answer to CLUSTER SLOTS.
    ///
    /// - Parameter asked: the node that answered.
    /// - Throws: `RedisError` with code `.protocol` if the answer has another form or names no slot.
    /// Source: Redis CLUSTER SLOTS: ranges of first slot, last slot, master, replicas; a node is host, port, …
    init(_ reply: RedisValue, asked: NodeAddress) throws(RedisError) {
        if let error = reply.serverError { throw error }
        guard let ranges = reply.array else { throw Self.error(asked, "not a list") }
        for range in ranges {
            guard let parts = range.array, parts.count >= 3, let first = parts[0].integer, let last = parts[1].integer,
                0 <= first, first <= last, last < HashSlot.count
            else { throw Self.error(asked, "a range of slots was expected") }
            let nodes = parts[2...].compactMap { Self.node($0, asked) }
            guard nodes.count == parts.count - 2, let master = nodes.first else {
                throw Self.error(asked, "host and port of a node were expected")
            }
            for slot in Int(first)...Int(last) { self.move(slot, to: master) }
            for replica in nodes.dropFirst()
            where self.replicas.count < Self.nodeLimit && !self.replicas.contains(replica) {
                self.replicas.append(replica)
            }
        }
        guard !self.masters.isEmpty else { throw Self.error(asked, "no slot is served by anybody") }
    }

    /// Returns the master that serves a slot; nil if none does, or if the number is not a slot.
    func master(of slot: Int) -> NodeAddress? {
        guard self.owners.indices.contains(slot), self.owners[slot] != Self.nobody else { return nil }
        // Only indices of masters are stored, and masters are never removed.
        return self.masters[Int(self.owners[slot])]
    }

    /// Notes that this node serves the slot, for example after a redirection.
    mutating func move(_ slot: Int, to node: NodeAddress) {
        guard self.owners.indices.contains(slot) else { return }
        let index = self.masters.firstIndex(of: node) ?? self.masters.count
        guard index < Self.nodeLimit else { return }
        if index == self.masters.count { self.masters.append(node) }
        self.owners[slot] = UInt16(index)
    }

    /// Masters that serve at least one slot.
    var serving: [NodeAddress] {
        var isServing = [Bool](repeating: false, count: self.masters.count)
        for owner in self.owners where owner != Self.nobody { isServing[Int(owner)] = true }
        return zip(self.masters, isServing).filter(\.1).map(\.0)
    }

    /// For each master that serves slots, the lowest number whose text, as a hash tag, leads to it.
    ///
    /// Mostly below 1024; more are tried for a master with a handful of slots.
    var hashTags: [NodeAddress: String] {
        let serving = Set(self.owners).subtracting([Self.nobody])
        var found: [NodeAddress: String] = [:]
        for number in 0..<(1 << 17) where found.count < serving.count {
            let tag = String(number)
            guard let master = self.master(of: HashSlot.of(tag.utf8)), found[master] == nil else { continue }
            found[master] = tag
        }
        return found
    }

    /// The first slot of each run with its master, `0=10.0.0.1:6379 5461= …`.
    var runs: String {
        var text = ""
        var last: NodeAddress?
        for slot in 0..<HashSlot.count {
            let master = self.master(of: slot)
            guard slot == 0 || master != last else { continue }
            last = master
            text += "\(slot)=\(master?.description ?? "") "
        }
        return text
    }

    private static func node(_ value: RedisValue, _ asked: NodeAddress) -> NodeAddress? {
        guard let parts = value.array, parts.count >= 2, let port = parts[1].integer, (1...65535).contains(port),
            parts[0].isNull || parts[0].text != nil
        else { return nil }
        return NodeAddress(announcedHost: parts[0].text, port: Int(port), asked: asked)
    }

    private static func error(_ asked: NodeAddress, _ found: String) -> RedisError {
        RedisError(.protocol, "reading the slots that \(asked) names: \(found)")
    }
}

/// The slot, of the 16,384 slots of a cluster, to which a key belongs.
///
/// Source: Redis cluster specification, "Key distribution model", "Hash tags" and Appendix A (CRC16/XMODEM)
public enum HashSlot {
    /// Slots of a cluster.
    public static let count = 16384
    /// Bytes of each of `tags`.
    public static let tagLength = 3
    /// A hash tag for each slot, concatenated in the order of the slots: three letters and digits each.
    public static let tags: String = {
        let characters = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".utf8)
        var tags = [UInt8](repeating: characters[0], count: Self.count * Self.tagLength)
        var isFound = [Bool](repeating: false, count: Self.count)
        for first in characters {
            for second in characters {
                let begun = Self.crc([first, second])
                for third in characters {
                    let slot = Int(Self.crc(begun, third)) % Self.count
                    guard !isFound[slot] else { continue }
                    isFound[slot] = true
                    tags.replaceSubrange(slot * 3..<slot * 3 + 3, with: [first, second, third])
                }
            }
        }
        return String(decoding: tags, as: UTF8.self)
    }()

    private static let polynomial: UInt16 = 0x1021
    private static let table: [UInt16] = (0..<256).map { byte in
        var crc = UInt16(byte) << 8
        for _ in 0..<8 { crc = crc & 0x8000 == 0 ? crc << 1 : crc << 1 ^ Self.polynomial }
        return crc
    }

    /// Returns the slot of a key: computed from the text between its first `{` and the next `}` if that is not empty,
    /// else from all of it.
    public static func of(_ key: some BidirectionalCollection<UInt8>) -> Int {
        let whole = key[...]
        guard let open = whole.firstIndex(of: UInt8(ascii: "{")) else { return Int(Self.crc(whole)) % Self.count }
        let behind = whole[whole.index(after: open)...]
        guard let close = behind.firstIndex(of: UInt8(ascii: "}")), close != behind.startIndex else {
            return Int(Self.crc(whole)) % Self.count
        }
        return Int(Self.crc(behind[..<close])) % Self.count
    }

    /// Returns the checksum: width 16, polynomial 0x1021, starts at 0, nothing reflected.
    static func crc(_ bytes: some Sequence<UInt8>) -> UInt16 {
        var crc: UInt16 = 0
        // The index is a byte, the table has 256 elements.
        for byte in bytes { crc = Self.crc(crc, byte) }
        return crc
    }

    private static func crc(_ crc: UInt16, _ byte: UInt8) -> UInt16 {
        crc << 8 ^ Self.table[Int(UInt8(crc >> 8) ^ byte)]
    }
}
