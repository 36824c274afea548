import NIOCore

/// Decides which of a host's addresses the next connection goes to. A value: the clock is an argument.
///
/// The order is by recent failure of the address; then by its number of connections, which spreads them; then by recent
/// failure of any address of its family, so that a network without IPv6 costs little; then the families alternate.
/// Source: RFC 8305 §4
struct AddressSelector {
    private var failed: [SocketAddress: NIODeadline] = [:]
    private let memory: TimeAmount
    /// The maximum number of addresses, more than any name has: a name whose addresses change constantly must not fill
    /// memory.
    static let most = 64

    /// - Parameter memory: the time during which a failure counts.
    init(memory: TimeAmount) { self.memory = memory }

    mutating func failed(_ address: SocketAddress, now: NIODeadline) {
        self.failed = self.failed.filter { now - $0.value < self.memory }
        if self.failed.count >= Self.most, let oldest = self.failed.min(by: { $0.value < $1.value }) {
            self.failed[oldest.key] = nil
        }
        self.failed[address] = now
    }

    mutating func worked(_ address: SocketAddress) {
        // Each answer calls this, and there is hardly ever a failure to forget.
        if !self.failed.isEmpty { self.failed[address] = nil }
    }

    /// Sorts the addresses for the next connection.
    ///
    /// - Parameters:
    ///   - addresses: in the resolver's order.
    ///   - inUse: the number of connections that each address has.
    /// - Returns: each address once, in the order in which to try them.
    func order(_ addresses: [SocketAddress], inUse: [SocketAddress: Int], now: NIODeadline) -> [SocketAddress] {
        let recent = self.failed.filter { now - $0.value < self.memory }
        let badFamilies = Set(recent.keys.map(\.isIPv6))
        let ranked = self.interleaved(addresses).enumerated().map { place, address in
            (
                rank: (
                    recent[address] == nil ? 0 : 1, inUse[address] ?? 0, badFamilies.contains(address.isIPv6) ? 1 : 0,
                    place
                ), address: address
            )
        }
        return ranked.sorted { $0.rank < $1.rank }.map(\.address)
    }

    /// Returns each address once, alternately of each family, beginning with the family of the first.
    private func interleaved(_ addresses: [SocketAddress]) -> [SocketAddress] {
        var unique: [SocketAddress] = []
        for address in addresses where !unique.contains(address) && unique.count < Self.most { unique.append(address) }
        guard let isFirstIPv6 = unique.first?.isIPv6 else { return [] }
        var first = unique.filter { $0.isIPv6 == isFirstIPv6 }[...]
        var second = unique.filter { $0.isIPv6 != isFirstIPv6 }[...]
        var result: [SocketAddress] = []
        while !first.isEmpty || !second.isEmpty {
            if let address = first.popFirst() { result.append(address) }
            if let address = second.popFirst() { result.append(address) }
        }
        return result
    }
}

extension SocketAddress {
    fileprivate var isIPv6: Bool { if case .v6 = self { true } else { false } }
}
