import APNS
import Model

/// Moves notifications that wait too long in the scheduler to the pending topic, so that the offsets of their records
/// advance.
extension PushStateMachine {
    /// The number of targets examined in one call.
    static let suspendStep = 4096

    /// Searches the next part of the targets for devices that have waited too long: for a brand that is not loaded or
    /// whose credential is ill or stopped, for their turn under the hourly limit, or to be sent or retried. Records
    /// from the pending topic stay.
    ///
    /// - Returns: at most `most` effects.
    mutating func suspendStuck(now: ContinuousClock.Instant, most: Int) -> [PushEffect] {
        guard most > 0, self.linkCount > 0 else { return [] }
        var effects: [PushEffect] = []
        for _ in 0..<min(Self.suspendStep, self.targets.count) {
            self.suspendCursor = self.suspendCursor + 1 < self.targets.count ? self.suspendCursor + 1 : 0
            let slot = self.suspendCursor
            guard self.isStuck(slot, now: now) else { continue }
            self.beginSending(slot)
            effects.append(self.suspend(slot))
            if effects.count == most { break }
        }
        return effects
    }

    private func isStuck(_ slot: Int, now: ContinuousClock.Instant) -> Bool {
        guard self.targets[slot].place == .ready || self.targets[slot].place == .waiting else { return false }
        let queue = Int(self.targets[slot].queue)
        let cannotSend = self.queues[queue].isTroubled || !self.queues[queue].isOpen
        // A notification that was never sent waits after its window only because of the hourly limit: for a minute or
        // more, and a restart would repeat all records after its own.
        let awaitsTurn = self.targets[slot].place == .waiting && self.targets[slot].tries.isFirst
        let hold = cannotSend || awaitsTurn ? self.limits.parkedHold : self.limits.schedulerHold
        guard now - self.targets[slot].since >= self.limits.window + hold else { return false }
        return self.targets[slot].waiting.contains { !self.records[Int($0.record)].isPending }
    }

    /// Moves a target whose links are in `sent` to the pending topic.
    mutating func suspend(_ slot: Int) -> PushEffect {
        let target = self.targets[slot]
        let type = self.queues[Int(target.queue)].orderType
        var pushes: [PendingPushKey: ParkedPush] = [:]
        for link in target.sent {
            let key = PendingPushKey(order: OrderKey(orderType: type, order: link.order), device: link.device)
            let published = self.records[Int(link.record)].epochMilliseconds
            let push = ParkedPush(
                key: key, receipts: [], epochMilliseconds: max(published, pushes[key]?.epochMilliseconds ?? -1))
            pushes[key] = push
        }
        return self.settleLater(slot, .suspend(Array(pushes.values)))
    }
}

extension PushOutcome {
    /// True if a notification with this outcome failed because of the service or a connection, not of its device.
    var isOfTheService: Bool {
        guard case .retry(let retry) = verdict(of: self, sentEpochMilliseconds: .max) else { return false }
        return retry.scope != .device
    }
}
