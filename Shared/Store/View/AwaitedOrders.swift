public import Model

/// Orders of one partition that cannot be packaged until their brands load.
public struct AwaitedOrders: Hashable, Sendable {
    /// The offset of the first of them.
    public let offset: Int64
    public let types: Set<OrderTypeIdentifier>

    public init(offset: Int64, types: Set<OrderTypeIdentifier>) {
        self.offset = max(0, offset)
        self.types = types
    }

    public func merging(_ other: AwaitedOrders?) -> AwaitedOrders {
        guard let other else { return self }
        return AwaitedOrders(offset: min(self.offset, other.offset), types: self.types.union(other.types))
    }

    /// Parses the format of `text`; nil for anything else.
    init?(text: String) {
        let parts = text.split(separator: ":", maxSplits: 1)
        guard parts.count == 2, let offset = Int64(parts[0]) else { return nil }
        self.init(offset: offset, types: Set(parts[1].split(separator: ",").compactMap { try? .init(String($0)) }))
    }

    /// `<offset>:<type>,<type>`
    var text: String { "\(self.offset):\(self.types.map(\.rawValue).sorted().joined(separator: ","))" }
}
