import APNS
import Kafka
import Model

/// What becomes of a notification whose push token is gone: its device may have come back meanwhile, with another
/// token or with the same one, and then still has to be told.
extension PushDesk {
    /// The registrations behind a notification, the last word of each.
    func deadToken(_ slot: Int, before moment: Int64) -> DeadToken {
        let target = self.targets[slot]
        var registrations: [RegistrationKey: RegistrationRecord] = [:]
        for link in target.sent + target.waiting {
            let (key, known) = (self.key(of: link, slot), link.registeredEpochMilliseconds)
            let last = max(registrations[key]?.registeredEpochMilliseconds ?? .min, known)
            registrations[key] = RegistrationRecord(pushToken: target.token, registeredEpochMilliseconds: last)
        }
        return DeadToken(token: target.token, moment: moment, registrations: registrations)
    }

    /// What had to be done for a notification is done: so are its records, but for devices that registered again.
    ///
    /// - Parameters:
    ///   - standing: which of a dead token's registrations stand now: with another push token that one is told, with
    ///     the same one it is tried again, as a failure of this device that counts.
    ///   - jitter: 0 to 1.
    /// - Returns: what is to be done for those that were tried for long enough.
    mutating func done(
        _ effect: PushEffect, standing: [RegistrationKey: RegistrationRecord] = [:], now: ContinuousClock.Instant,
        jitter: Double
    ) -> PushEffect? {
        guard let slot = self.slot(of: effect.number, in: .settling) else { return nil }
        self.settlingCount -= 1
        guard case .retire(let dead) = effect.work else {
            self.finish(slot)
            return nil
        }
        self.targets[slot].sent = self.settled(self.targets[slot].sent, slot, dead, standing, now: now)
        self.targets[slot].waiting = self.settled(self.targets[slot].waiting, slot, dead, standing, now: now)
        guard !self.targets[slot].sent.isEmpty else {
            self.finish(slot)
            return nil
        }
        let lane = Int(self.targets[slot].lane)
        let (step, reason) = self.lanes[lane].renewed(&self.targets[slot].tries, now: now, jitter: jitter)
        switch step {
        case .again(let pause):
            self.lanes[lane].tally.retried += 1
            self.sendAgain(slot, at: now + pause)
            return nil
        case .giveUp:
            return self.giveUp(slot, .undeliverable, reason)
        }
    }

    /// - Returns: the links that still want this push token; others are over, or with the token that stands now.
    private mutating func settled(
        _ links: [Link], _ slot: Int, _ dead: DeadToken, _ standing: [RegistrationKey: RegistrationRecord],
        now: ContinuousClock.Instant
    ) -> [Link] {
        var kept: [Link] = []
        var over: [Link] = []
        for link in links {
            let key = self.key(of: link, slot)
            // A registration that was found later is a newer one than what stood when somebody looked.
            guard let asked = dead.registrations[key],
                link.registeredEpochMilliseconds <= asked.registeredEpochMilliseconds
            else {
                kept.append(link)
                continue
            }
            guard let registration = standing[key] else {
                over.append(link)
                continue
            }
            let renewed = Link(
                record: link.record, device: link.device, order: link.order,
                registeredEpochMilliseconds: registration.registeredEpochMilliseconds)
            if registration.pushToken == dead.token {
                kept.append(renewed)
                continue
            }
            over.append(link)
            if self.records[Int(link.record)].isLeaving {
                self.letGo(Int(link.record))
            } else {
                self.tell(registration.pushToken, of: renewed, in: Int(self.targets[slot].lane), now: now)
            }
        }
        // Behind the tellings, so that no record is done between.
        self.end(over, of: slot)
        return kept
    }

    private func key(of link: Link, _ slot: Int) -> RegistrationKey {
        RegistrationKey(
            device: link.device,
            order: OrderKey(orderType: self.lanes[Int(self.targets[slot].lane)].orderType, order: link.order))
    }
}
