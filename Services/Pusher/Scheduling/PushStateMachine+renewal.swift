import APNS
import Kafka
import Model

/// Handles notifications whose push token is gone: the device may have registered again meanwhile, with another token
/// or with the same one, and must then still be notified.
extension PushStateMachine {
    /// Returns a target's push token and the registrations that led to its notification, the last one of each key.
    func deadToken(_ slot: Int, before moment: Int64) -> InvalidToken {
        let target = self.targets[slot]
        var registrations: [RegistrationKey: RegistrationRecord] = [:]
        for link in target.sent + target.waiting {
            let (key, known) = (self.key(of: link, slot), link.registeredEpochMilliseconds)
            let last = max(registrations[key]?.registeredEpochMilliseconds ?? .min, known)
            registrations[key] = RegistrationRecord(pushToken: target.token, registeredEpochMilliseconds: last)
        }
        return InvalidToken(token: target.token, moment: moment, registrations: registrations)
    }

    /// Finishes the records of a notification whose effect was performed, except for devices that registered again.
    ///
    /// - Parameters:
    ///   - standing: for a token that is gone, the present registrations of its keys: a registration with another push
    ///     token is notified, one with the same token is retried, which counts as a failure of the device.
    ///   - jitter: 0 to 1.
    /// - Returns: the dead letter of a notification whose attempts are used up.
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
        self.targets[slot].sent = self.keptLinks(self.targets[slot].sent, slot, dead, standing, now: now)
        self.targets[slot].waiting = self.keptLinks(self.targets[slot].waiting, slot, dead, standing, now: now)
        guard !self.targets[slot].sent.isEmpty else {
            self.finish(slot)
            return nil
        }
        let queue = Int(self.targets[slot].queue)
        let (step, reason) = self.queues[queue].renewed(&self.targets[slot].tries, now: now, jitter: jitter)
        switch step {
        case .again(let pause):
            self.queues[queue].counts.retried += 1
            self.sendAgain(slot, at: now + pause)
            return nil
        case .giveUp:
            return self.giveUp(slot, .undeliverable, reason)
        }
    }

    /// - Returns: the links that still need this push token; others end, or continue with the present token.
    private mutating func keptLinks(
        _ links: [Link], _ slot: Int, _ dead: InvalidToken, _ standing: [RegistrationKey: RegistrationRecord],
        now: ContinuousClock.Instant
    ) -> [Link] {
        var kept: [Link] = []
        var over: [Link] = []
        for link in links {
            let key = self.key(of: link, slot)
            // A link that was added later may have a newer registration than the one that was looked up.
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
                self.tell(registration.pushToken, of: renewed, in: Int(self.targets[slot].queue), now: now)
            }
        }
        // After the new links were added, so that no record is finished in between.
        self.end(over, of: slot)
        return kept
    }

    private func key(of link: Link, _ slot: Int) -> RegistrationKey {
        RegistrationKey(
            device: link.device,
            order: OrderKey(orderType: self.queues[Int(self.targets[slot].queue)].orderType, order: link.order))
    }
}
