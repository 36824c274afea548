/// The options of a brand's notifications for APNs.
///
/// Separate from the brand's authentication, so that changing them needs no new connection.
/// Source: Wallet Orders §4.1, §4.3
public struct PushOptions: Hashable, Sendable {
    /// `apns-push-type`
    public enum Kind: String, Hashable, Sendable, CaseIterable { case background, alert }

    /// `apns-priority`
    public enum Priority: Int64, Hashable, Sendable, CaseIterable {
        /// The device's power has precedence over everything else.
        case considerate = 1
        /// Delivered with regard to the device's power.
        case normal = 5
        /// Delivered immediately; an error with `.background`.
        case immediate = 10
    }

    /// Seconds that APNs may keep a notification, at most 30 days. Source: Wallet Orders §4.3
    static let expirationRange: ClosedRange<Int64> = 0...2_592_000
    /// Bytes of `apns-collapse-id`. Source: Wallet Orders §4.3
    public static let collapseIdentifierLimit = 64

    public var kind = Kind.background
    public var priority = Priority.normal
    /// The time for which APNs keeps a notification for a device that is off; 0: it tries once.
    public var expirationSeconds: Int64 = 604_800
    /// `apns-collapse-id`: visible ASCII, 1 to 64 bytes; nil sends none.
    public var collapseIdentifier: String?

    public init() {}

    /// Returns `apns-expiration` of a notification sent at this time: 0, which means not to keep it, or a future time.
    public func expirationEpochSeconds(nowEpochSeconds now: Int64) -> Int64 {
        self.expirationSeconds == 0 ? 0 : now + self.expirationSeconds
    }
}
