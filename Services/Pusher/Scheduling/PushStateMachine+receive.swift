import APNS
import DequeModule
import Kafka
import Model

extension PushStateMachine {
    /// Processes the outcome of one notification.
    ///
    /// - Parameters:
    ///   - generation: that of the credential that it was sent with.
    ///   - epochMilliseconds: the present time, for the history.
    ///   - jitter: 0 to 1; evaluated only for a retry.
    /// - Returns: the effect that must be performed before its records are done.
    mutating func receive(
        _ reply: PushReply, queue: Int, generation: Int, now: ContinuousClock.Instant, epochMilliseconds: Int64,
        jitter: @autoclosure () -> Double
    ) -> PushEffect? {
        guard let slot = self.slot(of: reply.number, in: .inFlight) else { return nil }
        var origin = CredentialHealth.Origin(device: self.targets[slot].key.hash)
        if !reply.outcome.isAccepted { origin.order = self.targets[slot].sent.first?.order.hashValue ?? 0 }
        let ruling = self.queues[queue].judge(
            reply.outcome, &self.targets[slot].tries, of: origin, generation: generation, now: now,
            epochMilliseconds: epochMilliseconds, jitter: jitter())
        switch ruling {
        case .delivered:
            self.queues[queue].counts.delivered += 1
            self.noteAge(slot, epochMilliseconds: epochMilliseconds)
            self.finish(slot)
        case .again(let pause):
            self.queues[queue].counts.retried += 1
            self.sendAgain(slot, at: now + pause)
        case .retire(let moment):
            return self.settleLater(slot, .retire(self.deadToken(slot, before: moment)))
        case .keep(let reason):
            self.queues[queue].counts.unknown += 1
            return self.giveUp(slot, .tokenUnknown, reason)
        case .giveUp where reply.outcome.isOfTheService:
            return self.suspend(slot)
        case .giveUp(let reason):
            return self.giveUp(slot, .undeliverable, reason)
        case .drop(let reason):
            return self.giveUp(slot, .refused, reason)
        }
        return nil
    }

    /// Drops a notification and returns its dead letter, which must be written.
    ///
    /// - Parameter reason: text for operators, without secrets.
    mutating func giveUp(_ slot: Int, _ code: PushDeadLetterCode, _ reason: String) -> PushEffect {
        let target = self.targets[slot]
        self.queues[Int(target.queue)].counts.drop(reason)
        // Only targets with links are sent, and only sent ones are dropped; a link's record is in hand.
        let (first, last) = (target.sent[0], target.sent[target.sent.count - 1])
        let letter = PushDeadLetter(
            code, reason,
            registration: RegistrationKey(
                device: last.device,
                order: OrderKey(orderType: self.queues[Int(target.queue)].orderType, order: last.order)),
            origin: self.records[Int(first.record)].receipt.position, records: target.sent.count,
            history: target.tries.history)
        return self.settleLater(slot, .report(letter))
    }

    mutating func settleLater(_ slot: Int, _ work: PushEffect.Work) -> PushEffect {
        self.targets[slot].place = .settling
        self.settlingCount += 1
        return PushEffect(number: Self.number(slot, self.newTicket(slot)), work: work)
    }

    /// Schedules a retry for the given time, merged with the changes that arrived meanwhile.
    mutating func sendAgain(_ slot: Int, at moment: ContinuousClock.Instant) {
        if self.targets[slot].waiting.isEmpty {
            self.targets[slot].exchange()
        } else {
            self.targets[slot].waiting = self.targets[slot].sent + self.targets[slot].waiting
            self.targets[slot].sent = []
        }
        self.wait(slot, until: moment)
        // Records whose partition was revoked meanwhile are not retried here.
        _ = self.dropWaiting(slot)
    }

    /// Ends the links that a notification was sent for; later ones get their own window.
    mutating func finish(_ slot: Int) {
        self.end(self.targets[slot].sent, of: slot)
        self.targets[slot].sent.removeAll(keepingCapacity: self.targets[slot].sent.capacity <= 8)
        self.targets[slot].tries = self.freshTries(now: self.targets[slot].since)
        if self.targets[slot].waiting.isEmpty {
            self.remove(slot)
        } else {
            self.openWindow(slot)
        }
    }

    private mutating func noteAge(_ slot: Int, epochMilliseconds: Int64) {
        var oldest = Int64.max
        for link in self.targets[slot].sent {
            let published = self.records[Int(link.record)].epochMilliseconds
            if published >= 0, published < oldest { oldest = published }
        }
        guard oldest < .max else { return }
        self.queues[Int(self.targets[slot].queue)].counts.agesInMilliseconds.append(max(0, epochMilliseconds - oldest))
    }
}
