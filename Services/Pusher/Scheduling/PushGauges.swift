/// Counts of everything thin the scheduler has in hand.
struct PushGauges: Hashable, Sendable {
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

extension PushStateMachine {
    /// Counted without looking at each target.
    var gauges: PushGauges {
        var gauges = PushGauges()
        gauges.records = self.recordCount
        gauges.targets = self.targetCount
        // Targets that have moved on remain in a queue until their turn comes: rarely any.
        gauges.ready = self.queues.reduce(0) { $0 + $1.ready.count + $1.suspects.count }
        gauges.inFlight = self.queues.reduce(0) { $0 + $1.inFlight }
        gauges.settling = self.settlingCount
        gauges.waiting = max(0, gauges.targets - gauges.ready - gauges.inFlight - gauges.settling)
        return gauges
    }
}
