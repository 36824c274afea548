import Model

/// Limits the notifications that registrations cause, for each order: a device's own limit goes by its push token, of
/// which a client may send another with each registration.
///
/// A value without a clock, bounded as `HourlyLimit`.
struct RegistrationShare: Sendable {
    private var limit: HourlyLimit

    /// - Parameter now: earlier than all later times.
    init(_ limits: PushLimits, now: ContinuousClock.Instant) {
        self.limit = HourlyLimit(perHour: limits.registrationLimit, now: now)
    }

    /// Moves the devices that registered to `found`, as far as their orders' shares allow.
    ///
    /// - Returns: those that must wait, and how long; nil: none.
    mutating func admit(
        _ outcome: inout PushLookup.Outcome, now: ContinuousClock.Instant
    ) -> (keys: Set<PendingPushKey>, wait: Duration)? {
        var waiting: Set<PendingPushKey> = []
        var longest = Duration.zero
        for one in outcome.registered {
            if let wait = self.limit.acquire(one.key.order, now: now) {
                waiting.insert(PendingPushKey(one.key))
                longest = max(longest, wait)
            } else {
                outcome.found.append(one)
            }
        }
        outcome.registered = []
        return waiting.isEmpty ? nil : (waiting, longest)
    }
}
