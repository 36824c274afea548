/// One notification to send, with a number that identifies it to the caller.
public struct PushRequest: Sendable {
    /// Chosen by the caller; the client returns it and never interprets it.
    public let number: UInt64
    public let notification: PushNotification

    public init(number: UInt64, notification: PushNotification) {
        self.number = number
        self.notification = notification
    }
}
