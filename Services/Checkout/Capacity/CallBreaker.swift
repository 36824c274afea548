import NIOCore

/// Decides when a service that does not answer in time is left alone.
///
/// After `limit` calls in a row that ran into their time limit no call is admitted for `pause`, then one at a time,
/// until one is answered.
struct CallBreaker: Hashable, Sendable {
    static let limit = 10
    static let pause = TimeAmount.seconds(5)

    /// Calls in a row that were not answered in time.
    private var timeouts = 0
    /// The time before which no call is admitted.
    private var closed = NIODeadline.uptimeNanoseconds(0)

    /// True if nothing is known against the service.
    var isClear: Bool { self.timeouts == 0 }
    var isOpen: Bool { self.timeouts >= Self.limit }

    mutating func admits(at now: NIODeadline) -> Bool {
        guard self.isOpen else { return true }
        guard now >= self.closed else { return false }
        // The next one waits for the outcome of this one, or for another pause.
        self.closed = now + Self.pause
        return true
    }

    /// Counts the end of a call.
    ///
    /// - Returns: true if the service is left alone from now on.
    mutating func ended(inTime: Bool, at now: NIODeadline) -> Bool {
        guard !inTime else {
            self.timeouts = 0
            return false
        }
        self.timeouts = min(self.timeouts + 1, Self.limit)
        self.closed = now + Self.pause
        return self.isOpen
    }
}
