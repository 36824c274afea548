/// How APNs is to treat a brand's notifications.
///
/// Apart from how the brand proves itself, so that a change of it needs no new connection.
/// Source: Wallet Orders §4.1, §4.3
public struct PushOptions: Hashable, Sendable {
    /// `apns-push-type`
    public enum Kind: String, Hashable, Sendable, CaseIterable { case background, alert }

    /// `apns-priority`
    public enum Priority: Int64, Hashable, Sendable, CaseIterable {
        /// The device's power before all else.
        case considerate = 1
        /// When it suits the device's power.
        case normal = 5
        /// At once; an error with `.background`.
        case immediate = 10
    }

    /// Seconds that APNs may keep a notification, at most 30 days. Source: Wallet Orders §4.3
    public static let expirationRange: ClosedRange<Int64> = 0...2_592_000
    /// Bytes of `apns-collapse-id`. Source: Wallet Orders §4.3
    public static let collapseIdentifierLimit = 64

    public var kind = Kind.background
    public var priority = Priority.normal
    /// How long APNs keeps a notification for a device that is off; 0: it tries once.
    public var expirationSeconds: Int64 = 604_800
    /// `apns-collapse-id`: visible ASCII, 1 to 64 bytes; nil sends none.
    public var collapseIdentifier: String?

    public init() {}

    /// `apns-expiration` of a notification that is sent now: 0, which means do not keep it, or a moment to come.
    public func expirationEpochSeconds(nowEpochSeconds now: Int64) -> Int64 {
        self.expirationSeconds == 0 ? 0 : now + self.expirationSeconds
    }
}
