/// One notification to send, with a number by which the caller knows it again.
public struct PushRequest: Sendable {
    /// The caller's own; the client gives it back and never looks at it.
    public let number: UInt64
    public let notification: PushNotification

    public init(number: UInt64, notification: PushNotification) {
        self.number = number
        self.notification = notification
    }
}
