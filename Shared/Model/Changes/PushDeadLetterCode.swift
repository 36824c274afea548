/// The reason why a notification was given up: `waybill-error` of its dead letter.
///
/// Unlike the letters of `ChangeFault.Code`, such a letter holds no record to put back: it names the device that was
/// not notified.
/// Source: Design §3
public enum PushDeadLetterCode: String, Hashable, Sendable, CaseIterable {
    /// It failed too often or for too long while others went through.
    case undeliverable = "push-undeliverable"
    /// APNs refuses the order type's certificate or key, and it did not change within the hold limit.
    case credentialStopped = "push-credential-stopped"
    /// APNs refuses this notification for what it is.
    case refused = "push-refused"
    /// APNs does not know the push token, and the registration was kept as it may be our own environment that is wrong.
    case tokenUnknown = "push-token-unknown"
    /// No brand is loaded for the order type.
    case brandMissing = "push-brand-missing"

    /// Returns true if a letter's code is one of these, or one that only another version's pusher has.
    public static func isOne(_ code: String) -> Bool { code.hasPrefix("push-") }
}
