import NIOCore

/// The requests of one connection whose streams are open, by the tag that the session returns.
struct InFlightRequests {
    /// One open stream.
    struct Flight {
        let entry: PushQueue<PendingPush>.Entry
        let stream: Int32
        let deadline: NIODeadline
        /// True if the request timed out and has its outcome, so that only the end of its stream is awaited.
        var isAbandoned = false
    }

    private var flights: [Flight?] = []
    private var free: [Int] = []
    private(set) var count = 0

    /// The tag that the next `insert` uses.
    var nextTag: Int { self.free.last ?? self.flights.count }

    mutating func insert(_ flight: Flight) {
        self.count += 1
        if let tag = self.free.popLast() { self.flights[tag] = flight } else { self.flights.append(flight) }
    }

    mutating func remove(_ tag: Int) -> Flight? {
        guard self.flights.indices.contains(tag), let flight = self.flights[tag] else { return nil }
        self.flights[tag] = nil
        self.free.append(tag)
        self.count -= 1
        return flight
    }

    /// Marks requests past their deadline as abandoned, and returns each of them once.
    mutating func abandonExpired(now: NIODeadline) -> [Flight] {
        guard self.count > 0 else { return [] }
        var expired: [Flight] = []
        for tag in self.flights.indices {
            guard let flight = self.flights[tag], !flight.isAbandoned, flight.deadline <= now else { continue }
            expired.append(flight)
            self.flights[tag]?.isAbandoned = true
        }
        return expired
    }

    /// Empties the table and returns its requests, without the abandoned ones, which have their outcome.
    mutating func takeAll() -> [Flight] {
        defer {
            self.flights.removeAll()
            self.free.removeAll()
            self.count = 0
        }

        return self.flights.compactMap { $0 }.filter { !$0.isAbandoned }
    }
}
