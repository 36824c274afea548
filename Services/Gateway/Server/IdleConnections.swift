import NIOCore

/// Decides which connections without a request give way to clients that want to come in.
///
/// Slots are worth most to those who ask. While half of a scope's slots are free, a connection may be idle for the
/// whole limit. Then the time that is left shrinks with each slot that is taken, and from nine tenths on those that are
/// idle longest go at once, until a tenth is free again. A connection that was idle for less than `grace` never gives
/// way: its request may be on the way.
struct IdleConnections: Sendable {
    /// A connection as it is judged.
    struct Candidate: Sendable {
        /// Nil for a trusted proxy, which counts in all connections alone.
        let client: ClientAddress?
        /// Since when there is no request; nil while there is one.
        let idleSince: NIODeadline?
    }

    /// The part of a scope from which on idle connections give way.
    static let pressure = 0.5
    /// The part of a scope that is left taken.
    static let crowded = 0.9

    /// The time that a connection may be idle where there is room.
    var limit = GatewayServer.idleLimit
    /// The time that a connection may be idle whatever happens.
    var grace = TimeAmount.seconds(1)

    /// The time that a connection may be idle.
    ///
    /// - Parameter fullness: of its fullest scope, 1 when all slots are taken.
    func allowance(fullness: Double) -> TimeAmount {
        guard fullness > Self.pressure else { return self.limit }
        let part = max(0, 1 - fullness) / (1 - Self.pressure)
        return max(self.grace, .nanoseconds(Int64(Double(self.limit.nanoseconds) * part)))
    }

    /// The connections that give way, longest idle first.
    ///
    /// - Parameters:
    ///   - candidates: all connections that are open and were not told to give way yet.
    ///   - limits: what the scopes may have.
    /// - Returns: indices of `candidates`.
    func givingWay(among candidates: [Candidate], limits: ConnectionLimits, at now: NIODeadline) -> [Int] {
        // Counted anew: those that were told to go still have their slots for a moment, but need no successors.
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
