import NIOCore

/// Decides which connections without a request give way to new clients.
///
/// Slots are most valuable to clients with requests. While half of a scope's slots are free, a connection may be idle
/// for the whole limit. After that the permitted time shrinks with each slot taken, and from nine tenths on those idle
/// longest are closed immediately, until a tenth is free again. A connection that was idle for less than `grace` never
/// gives way: its request may be in flight.
struct IdleConnections: Sendable {
    /// The facts about a connection for the decision.
    struct Candidate: Sendable {
        /// Nil for a trusted proxy, which counts only in the total.
        let client: ClientAddress?
        /// The time since which there is no request; nil while there is one.
        let idleSince: NIODeadline?
    }

    /// The used part of a scope from which on idle connections give way.
    static let pressure = 0.5
    /// The part of a scope that may remain used.
    static let crowded = 0.9

    /// The time that a connection may be idle if there is room.
    var limit = RequestLimits.idle
    /// The time that a connection may be idle in any case.
    var grace = TimeAmount.seconds(1)

    /// Returns the time that a connection may be idle.
    ///
    /// - Parameter fullness: that of its fullest scope, 1 when all slots are taken.
    func allowance(fullness: Double) -> TimeAmount {
        guard fullness > Self.pressure else { return self.limit }
        let part = max(0, 1 - fullness) / (1 - Self.pressure)
        return max(self.grace, .nanoseconds(Int64(Double(self.limit.nanoseconds) * part)))
    }

    /// Returns the connections that give way, longest idle first.
    ///
    /// - Parameters:
    ///   - candidates: all connections that are open and were not asked to give way yet.
    ///   - limits: the limits of the scopes.
    /// - Returns: indices of `candidates`.
    func givingWay(among candidates: [Candidate], limits: ConnectionLimits, at now: NIODeadline) -> [Int] {
        // Counted again: connections already asked to end still have their slots for a moment, but need no successors.
        var counts = ConnectionLimits(total: limits.total, perAddress: limits.perAddress)
        for candidate in candidates { _ = counts.admit(candidate.client) }
        let idle = candidates.indices.compactMap { index in candidates[index].idleSince.map { (index, $0) } }
        var leaving: [Int] = []
        for (index, since) in idle.sorted(by: { $0.1 < $1.1 }) {
            guard now - since >= self.grace else { break }
            let client = candidates[index].client
            let fullness = counts.fullness(for: client)
            guard fullness > Self.crowded || now - since >= self.allowance(fullness: fullness) else { continue }
            leaving.append(index)
            counts.leave(client)
        }
        return leaving
    }
}
