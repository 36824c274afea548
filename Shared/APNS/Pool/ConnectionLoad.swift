import NIOCore

/// Load and health of one open connection.
struct ConnectionLoad: Hashable {
    let id: Int
    var openStreams = 0
    /// The limit of open streams that its peer allows.
    var limit = 1
    /// The number of requests that it would accept at this moment; 0 also while its socket or its peer is slow.
    var freeStreams = 0
    /// The order number, which grows with each request of the client, of the last request started here.
    var lastStarted: UInt64 = 0
    /// Failures of 1,024 recent requests.
    var failureShare = 0
    /// The time when the failures began.
    var failingSince: NIODeadline?
    /// The time of the last answer that is not a failure.
    var lastGoodAnswer: NIODeadline?

    /// The share of failures at which a connection is replaced, if another one has at most a tenth of it: seven in a
    /// row. If all fail alike it is hardly ever reached.
    static let illShare = 200
    static let illRatio = 10

    /// Streams that the next request would have, weighted by failures: a connection that fails everything at once
    /// always has the fewest in flight and must not attract the traffic. All failures count as 33 streams.
    private var cost: Int { (self.openStreams + 1) * (32 + self.failureShare) }

    /// True if the next request goes here rather than there: the least cost first, among equals the one that has been
    /// idle longest, so that each proves from time to time that it works.
    func isBetter(than other: Self) -> Bool {
        (self.cost, self.lastStarted) < (other.cost, other.lastStarted)
    }

    /// The connection for the next request.
    ///
    /// - Returns: nil if none has room.
    static func best(_ loads: some Sequence<Self>) -> Self? {
        var best: Self?
        for load in loads where load.freeStreams > 0 {
            if let leader = best, !load.isBetter(than: leader) { continue }
            best = load
        }
        return best
    }

    /// A connection that fails again and again while another was healthy in the meantime: the fault is with its host
    /// and not with APNs (pushy#529).
    static func ill(among loads: [Self]) -> Int? {
        loads.first { load in
            guard load.failureShare >= Self.illShare, let since = load.failingSince else { return false }
            return loads.contains { other in
                guard other.id != load.id, let good = other.lastGoodAnswer else { return false }
                return other.failureShare * Self.illRatio <= load.failureShare && good > since
            }
        }?.id
    }
}
