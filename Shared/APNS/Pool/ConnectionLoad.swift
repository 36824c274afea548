import NIOCore

/// The load and health of one open connection.
struct ConnectionLoad: Hashable {
    let id: Int
    var openStreams = 0
    /// The limit of open streams, as in `ConnectionStateMachine.limit`.
    var limit = 1
    /// The number of requests that it accepts at this moment; 0 also while its socket or its peer is slow.
    var freeStreams = 0
    /// The order number of the last request started on the connection; it grows with each request of the client.
    var lastStarted: UInt64 = 0
    /// The share of failures in 1,024ths, as in `ConnectionStateMachine.failureShare`.
    var failureShare = 0
    /// The time when the failures began.
    var failingSince: NIODeadline?
    /// The time of the last answer that is not a failure.
    var lastGoodAnswer: NIODeadline?

    /// The share of failures at which a connection is replaced, after seven in a row, if another connection has at most
    /// a tenth of its share. If all connections fail alike, that is hardly ever so.
    static let illShare = 200
    static let illRatio = 10

    /// The number of streams with the next request, weighted by failures: a connection that fails every request
    /// immediately always has the fewest in flight and must not attract the traffic. If all requests fail, a stream
    /// counts as 33.
    private var cost: Int { (self.openStreams + 1) * (32 + self.failureShare) }

    /// Returns true if the next request goes to this connection rather than to the other: the least cost first, among
    /// equals the longest idle, so that each connection proves from time to time that it works.
    func isBetter(than other: Self) -> Bool {
        (self.cost, self.lastStarted) < (other.cost, other.lastStarted)
    }

    /// Returns the connection for the next request; nil if none has a free stream.
    static func best(_ loads: some Sequence<Self>) -> Self? {
        var best: Self?
        for load in loads where load.freeStreams > 0 {
            if let leader = best, !load.isBetter(than: leader) { continue }
            best = load
        }
        return best
    }

    /// Returns the identifier of a connection that fails repeatedly while another has been healthy in the meantime: the
    /// fault is its host's and not that of APNs (pushy#529).
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
