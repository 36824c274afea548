/// One notification in progress inside the client.
struct PendingPush {
    let notification: PushNotification
    /// The request's number, or its place in `batch`.
    let number: UInt64
    /// The call of `send` that waits for the outcome; nil if the reply goes to `onReplies`.
    let batch: PushBatch?
    /// `apns-id`, made once so that a retry carries the same value.
    let identifier: NotificationIdentifier
}
