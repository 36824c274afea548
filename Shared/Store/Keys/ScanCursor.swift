import Model
import Redis

/// The position of a scan of all keys: in a cluster the master, and the position there.
///
/// As text it is Redis's own number for a single server, `<topology> <number of the master> <Redis's>` for a cluster.
struct ScanCursor: Hashable {
    /// nil for a single server.
    let master: RedisMaster?
    /// Redis's cursor.
    let position: String
    private let index: Int

    /// Parses a cursor; nil, an invalid one, and one from before slots got other masters start a new scan.
    init(_ text: String?, in topology: RedisTopology) {
        guard !topology.masters.isEmpty else {
            (self.master, self.position, self.index) = (nil, text.flatMap { UInt64($0) }.map(String.init) ?? "0", 0)
            return
        }
        let parts = (text ?? "").split(separator: " ")
        if parts.count == 3, UInt64(parts[2]) != nil, parts[0] == topology.identifier, let index = Int(parts[1]),
            topology.masters.indices.contains(index)
        {
            (self.master, self.position, self.index) = (topology.masters[index], String(parts[2]), index)
        } else {
            (self.master, self.position, self.index) = (topology.masters[0], "0", 0)
        }
    }

    /// Returns true if a text has the form of a cursor of either kind.
    static func isCursor(_ text: String) -> Bool {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        switch parts.count {
        case 1: return UInt64(text) != nil
        case 3: return UInt64(parts[0], radix: 16) != nil && UInt(parts[1]) != nil && UInt64(parts[2]) != nil
        default: return false
        }
    }

    /// Returns the cursor to continue with; nil at the end.
    /// - Parameter position: the cursor in Redis's answer.
    func next(behind position: String, in topology: RedisTopology) -> String? {
        guard self.master != nil else { return position == "0" ? nil : position }
        let index = position == "0" ? self.index + 1 : self.index
        return index < topology.masters.count ? "\(topology.identifier) \(index) \(position)" : nil
    }
}

extension RedisTopology {
    /// Changes when a slot has another master; empty for a single server.
    var identifier: String {
        guard !self.slots.isEmpty else { return "" }
        var hash = FNV1a()
        hash.combine(self.slots.utf8)
        return String(hash.value, radix: 16)
    }
}
