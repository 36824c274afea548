/// Counts of everything that the desk has in hand.
struct PushCensus: Hashable, Sendable {
    /// Records that are not done.
    var records = 0
    /// Devices and order types that must be notified, wherever they are.
    var targets = 0
    /// Targets that wait for the end of their window, for their turn in the hour, or for a retry.
    var waiting = 0
    /// Targets that wait for their turn with their credential.
    var ready = 0
    /// Targets with the clients.
    var inFlight = 0
    /// Targets that wait for the removal of a registration or for a letter to be written.
    var settling = 0
}

extension PushDesk {
    /// Counted without looking at each target.
    var census: PushCensus {
        var census = PushCensus()
        census.records = self.recordCount
        census.targets = self.targetCount
        // Targets that have moved on remain in a queue until their turn comes: rarely any.
        census.ready = self.lanes.reduce(0) { $0 + $1.ready.count + $1.suspects.count }
        census.inFlight = self.lanes.reduce(0) { $0 + $1.inFlight }
        census.settling = self.settlingCount
        census.waiting = max(0, census.targets - census.ready - census.inFlight - census.settling)
        return census
    }
}
