/// How many of what the desk has in hand.
struct PushCensus: Hashable, Sendable {
    /// Records that are not done.
    var records = 0
    /// Devices and order types that have to be told, wherever they are.
    var targets = 0
    /// For the end of their window, for their turn in the hour, or for another try.
    var waiting = 0
    /// For their turn with their credential.
    var ready = 0
    /// With the clients.
    var inFlight = 0
    /// For a registration that is taken off or a letter that is written.
    var settling = 0
}

extension PushDesk {
    /// Counted without looking at each target.
    var census: PushCensus {
        var census = PushCensus()
        census.records = self.recordCount
        census.targets = self.targetCount
        // Those that have moved on stand in a line until their turn comes: rarely any.
        census.ready = self.lanes.reduce(0) { $0 + $1.ready.count + $1.suspects.count }
        census.inFlight = self.lanes.reduce(0) { $0 + $1.inFlight }
        census.settling = self.settlingCount
        census.waiting = max(0, census.targets - census.ready - census.inFlight - census.settling)
        return census
    }
}
