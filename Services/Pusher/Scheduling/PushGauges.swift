/// Counts of everything that the scheduler has in hand.
struct PushGauges: Hashable, Sendable {
    /// Records that are not done.
    var records = 0
    /// Pairs of a device and an order type to be notified, in any place.
    var targets = 0
    /// Targets that wait for the end of their window, for their turn in the hour, or for a retry.
    var waiting = 0
    /// Targets that wait for their turn with their credential.
    var ready = 0
    /// Targets whose notifications are with the clients.
    var inFlight = 0
    /// Targets that wait for an effect, such as the removal of a registration or a dead letter.
    var settling = 0
}

extension PushStateMachine {
    /// The present counts, computed without visiting each target.
    var gauges: PushGauges {
        var gauges = PushGauges()
        gauges.records = self.recordCount
        gauges.targets = self.targetCount
        // Entries of targets that have moved on stay in a queue until their turn; they are rare.
        gauges.ready = self.queues.reduce(0) { $0 + $1.ready.count + $1.suspects.count }
        gauges.inFlight = self.queues.reduce(0) { $0 + $1.inFlight }
        gauges.settling = self.settlingCount
        gauges.waiting = max(0, gauges.targets - gauges.ready - gauges.inFlight - gauges.settling)
        return gauges
    }
}
