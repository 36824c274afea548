import NIOCore

/// How busy and how well one open connection is.
struct ConnectionLoad: Hashable {
    let id: Int
    var openStreams = 0
    /// As its peer allows.
    var limit = 1
    /// How many requests it would take now; 0 also while its socket or its peer is slow.
    var freeStreams = 0
    /// Grows with each request of the client; that of the last one started here.
    var lastStarted: UInt64 = 0
    /// Of 1,024 requests so many failed, lately.
    var failureShare = 0
    /// When that began.
    var failingSince: NIODeadline?
    /// When the last answer came that is no failure.
    var lastGoodAnswer: NIODeadline?

    /// A share of failures with which a connection is replaced, if another one has a tenth of it at most: seven in a
    /// row. Where all fail alike it hardly ever comes about.
    static let illShare = 200
    static let illRatio = 10

    /// Streams that the next request would have, weighed with failures: what fails at once has always the least in
    /// flight and must not get the traffic for it. All failures weigh as 33 streams.
    private var cost: Int { (self.openStreams + 1) * (32 + self.failureShare) }

    /// True if the next request goes here rather than there: the least cost first, among equals the one that has waited
    /// longest, so that each proves now and then that it lives.
    func isBetter(than other: Self) -> Bool {
        (self.cost, self.lastStarted) < (other.cost, other.lastStarted)
    }

    /// The connection for the next request.
    ///
    /// - Returns: nil when none has room.
    static func best(_ loads: some Sequence<Self>) -> Self? {
        var best: Self?
        for load in loads where load.freeStreams > 0 {
            if let leader = best, !load.isBetter(than: leader) { continue }
            best = load
        }
        return best
    }

    /// A connection that fails again and again while another was well in the meantime: the fault is with its host and
    /// not with APNs (pushy#529).
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
