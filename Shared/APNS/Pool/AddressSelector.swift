import NIOCore

/// Decides which of a host's addresses the next connection goes to. A value: the clock is an argument.
///
/// Spreads connections: an address that failed recently comes last, before that one with more connections; the families
/// take turns, and one whose address failed recently yields to the other, so that a network without IPv6 costs little.
/// Source: RFC 8305 §4
struct AddressSelector {
    private var failed: [SocketAddress: NIODeadline] = [:]
    private let memory: TimeAmount
    /// More than any name has; a name that changes its addresses all the time must not fill memory.
    static let most = 64

    /// - Parameter memory: the time for which a failure counts.
    init(memory: TimeAmount) { self.memory = memory }

    mutating func failed(_ address: SocketAddress, now: NIODeadline) {
        self.failed = self.failed.filter { now - $0.value < self.memory }
        if self.failed.count >= Self.most, let oldest = self.failed.min(by: { $0.value < $1.value }) {
            self.failed[oldest.key] = nil
        }
        self.failed[address] = now
    }

    mutating func worked(_ address: SocketAddress) {
        // Called with each answer, and there is hardly ever something to forget.
        if !self.failed.isEmpty { self.failed[address] = nil }
    }

    /// - Parameters:
    ///   - addresses: in the resolver's order.
    ///   - inUse: the number of connections that each has.
    /// - Returns: each address once, the one to try first in front.
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

    /// The first family stays first, then they alternate.
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
