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
    /// Answers with status 500 since the last other one.
    var serverErrors = 0
    /// When the first of those came.
    var firstServerError: NIODeadline?
    /// When the last answer came that was not 5xx.
    var lastGoodAnswer: NIODeadline?

    /// Whether the next request goes here rather than there: least in flight first, among equals the one that has
    /// waited longest, so that each proves now and then that it lives.
    func isBetter(than other: Self) -> Bool {
        (self.openStreams, self.lastStarted) < (other.openStreams, other.lastStarted)
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

    /// A connection that answers 500 again and again while another was well in the meantime: the fault is on its way
    /// and not with APNs (pushy#529).
    static func ill(among loads: [Self], errors: Int) -> Int? {
        loads.first { load in
            guard load.serverErrors >= max(1, errors), let first = load.firstServerError else { return false }
            return loads.contains { other in
                guard other.id != load.id, let good = other.lastGoodAnswer else { return false }
                return other.serverErrors == 0 && good > first
            }
        }?.id
    }
}
