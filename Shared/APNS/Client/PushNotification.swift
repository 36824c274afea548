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
    /// `apns-expiration`: the time until which APNs stores it for an offline device; 0 if it must not be stored.
    public var expirationEpochSeconds: Int64
    /// `apns-priority`: 5 with `.background`, for which 10 is an error.
    public var priority: UInt8 = 5
    public var pushType = Kind.background
    /// `apns-collapse-id`, at most 64 bytes; nil for none. A device shows only the last of several with the same value.
    public var collapseIdentifier: String?
    /// The body, at most 4,096 bytes; APNs refuses an empty body.
    public var payload: [UInt8] = Self.emptyPayload

    public init(deviceToken: PushToken, topic: OrderTypeIdentifier, expirationEpochSeconds: Int64) {
        self.deviceToken = deviceToken
        self.topic = topic
        self.expirationEpochSeconds = expirationEpochSeconds
    }

    /// `{}`, one array for all notifications.
    public static let emptyPayload: [UInt8] = Array("{}".utf8)
}
