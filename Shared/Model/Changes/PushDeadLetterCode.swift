/// The reason why a notification was given up: `waybill-error` of its dead letter.
///
/// Unlike those of `ChangeFault.Code`, such a dead letter contains no record to replay: it names the device that was
/// not notified.
/// Source: Design §3
public enum PushDeadLetterCode: String, Hashable, Sendable, CaseIterable {
    /// It failed too often or for too long while others succeeded.
    case undeliverable = "push-undeliverable"
    /// APNs refuses this notification itself.
    case refused = "push-refused"
    /// APNs does not know the push token; the registration was kept, since our own environment may be the wrong one.
    case tokenUnknown = "push-token-unknown"
    /// Several pushers ended while they had only this record in work. It names the order alone, unless the record was a
    /// registration.
    case workerEnded = "push-worker-ended"

    /// Returns true if a dead letter's code is one of these, or one that only another version of the pusher has.
    public static func isOne(_ code: String) -> Bool { code.hasPrefix("push-") }
}
