public import Model

/// One notification to one device: something of this order type changed.
///
/// Source: Wallet Orders §4.1, §4.3
public struct PushNotification: Hashable, Sendable {
    /// `apns-push-type`
    public enum Kind: String, Hashable, Sendable { case background, alert }

    public var deviceToken: PushToken
    /// `apns-topic`
    public var topic: OrderTypeIdentifier
    /// `apns-expiration`: the time until which APNs keeps it for a device that is offline; 0: not at all.
    public var expirationEpochSeconds: Int64
    /// `apns-priority`: 5 with `.background`; 10 would be an error there.
    public var priority: UInt8 = 5
    public var pushType = Kind.background
    /// `apns-collapse-id`, at most 64 bytes; nil: none. A device shows only the last of several with the same one.
    public var collapseIdentifier: String?
    /// The body, at most 4,096 bytes; a zero-byte body would be refused.
    public var payload: [UInt8] = Self.emptyPayload

    public init(deviceToken: PushToken, topic: OrderTypeIdentifier, expirationEpochSeconds: Int64) {
        self.deviceToken = deviceToken
        self.topic = topic
        self.expirationEpochSeconds = expirationEpochSeconds
    }

    /// `{}`, one array for all notifications.
    public static let emptyPayload: [UInt8] = Array("{}".utf8)
}
