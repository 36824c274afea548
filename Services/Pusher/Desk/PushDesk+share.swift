import Model

/// The share of the desk that each lane may fill, so that one that is slow, busy or away does not keep the others out.
extension PushDesk {
    /// The most links that one lane may hold before its further records are parked: three times the free room. So a
    /// lane that is alone fills three quarters, two fill three sevenths each, and there is always room for one more.
    /// While there are others, no lane holds more than `laneLinks`: a parked record takes no lookup, so the records of
    /// other lanes that come after a large change are reached several times sooner.
    ///
    /// Source: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998
    var share: Int {
        let share = max(1, self.room * 3)
        return self.lanes.count > 1 ? min(share, self.limits.laneLinks) : share
    }

    /// Order types whose records must be parked: only probes can be sent for them, or they have their share.
    var parkedTypes: Set<OrderTypeIdentifier> {
        var types: Set<OrderTypeIdentifier> = []
        let share = self.share
        let parksBrandless = self.pendingTopic != nil
        for lane in self.lanes.indices {
            guard
                self.lanes[lane].isTroubled || self.lanes[lane].links >= share
                    || (parksBrandless && !self.lanes[lane].isOpen)
            else { continue }
            types.insert(self.lanes[lane].orderType)
        }
        return types
    }

    /// The number of an order type's parked keys that may be looked up.
    ///
    /// Parked keys fill half of a share at most, so that new records of the same lane still pass directly. A lane that
    /// is ill or stopped gets as many as its probes need, one without a brand none.
    func opening(of type: OrderTypeIdentifier) -> Int {
        guard let number = self.number(of: type), self.lanes[number].isOpen else { return 0 }
        let most = self.lanes[number].isTroubled ? self.limits.probes : max(1, self.share / 2)
        return max(0, min(self.room, most - self.lanes[number].links))
    }
}
