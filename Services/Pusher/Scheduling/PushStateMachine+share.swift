import Model

/// The share of the scheduler that each queue may fill, so that a slow, busy or unavailable one does not block the
/// others.
extension PushStateMachine {
    /// The most links that one queue may hold before its further records are parked: three times the free room. So a
    /// queue that is alone fills three quarters, two fill three sevenths each, and there is always room for one more.
    /// While there are others, no queue holds more than `queueLinks`: a parked record takes no lookup, so the records
    /// of other queues that follow a large change are reached several times sooner.
    ///
    /// Source: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998
    var share: Int {
        let share = max(1, self.room * 3)
        return self.queues.count > 1 ? min(share, self.limits.queueLinks) : share
    }

    /// Order types whose records must be parked: only probes can be sent for them, they have used their share, or they
    /// have no brand.
    var parkedTypes: Set<OrderTypeIdentifier> {
        var types: Set<OrderTypeIdentifier> = []
        let share = self.share
        for queue in self.queues.indices {
            guard
                self.queues[queue].isTroubled || self.queues[queue].links >= share
                    || !self.queues[queue].isOpen
            else { continue }
            types.insert(self.queues[queue].orderType)
        }
        return types
    }

    /// Returns the number of an order type's parked keys that may be looked up.
    ///
    /// Parked keys fill half of a share at most, so that new records of the same queue still pass directly. A queue
    /// whose credential is ill or stopped gets as many as its probes need, one without a brand gets none.
    func opening(of type: OrderTypeIdentifier) -> Int {
        guard let number = self.number(of: type), self.queues[number].isOpen else { return 0 }
        let most = self.queues[number].isTroubled ? self.limits.probes : max(1, self.share / 2)
        return max(0, min(self.room, most - self.queues[number].links))
    }
}
