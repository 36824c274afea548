import HTTP2
import Model

/// The header fields of all requests of one connection; each notification replaces what is its own.
///
/// Source: Wallet Orders §4.3, with its HPACK advice: path and token never indexed, `apns-id` and `apns-expiration`
/// the first time only
struct PushRequestBlock {
    private var block = HTTP2HeaderBlock()
    private let path: Int
    private let authorization: Int?
    private let topic: Int
    private let pushType: Int
    private let priority: Int
    private let expiration: Int
    private let identifier: Int
    private var isFirst = true

    /// - Parameter hasToken: whether requests carry `authorization`.
    init(authority: String, hasToken: Bool) {
        _ = self.block.append(":method", "POST")
        _ = self.block.append(":scheme", "https")
        _ = self.block.append(":authority", authority)
        self.path = self.block.append(":path", "", isIndexed: false)
        self.authorization = hasToken ? self.block.append("authorization", "", isIndexed: false) : nil
        self.topic = self.block.append("apns-topic", "")
        self.pushType = self.block.append("apns-push-type", "")
        self.priority = self.block.append("apns-priority", "")
        self.expiration = self.block.append("apns-expiration", "")
        self.identifier = self.block.append("apns-id", "")
    }

    /// - Parameter authorization: the header's value; ignored where requests carry none.
    mutating func fill(_ push: PendingPush, authorization value: [UInt8]) -> HTTP2HeaderBlock {
        let notification = push.notification
        self.block.rewind()
        self.block.replace(self.path, "/3/device/".utf8, notification.deviceToken.rawValue.utf8)
        if let authorization = self.authorization { self.block.replace(authorization, value) }
        self.block.replace(self.topic, notification.topic.rawValue.utf8)
        self.block.replace(self.pushType, notification.pushType.rawValue.utf8)
        self.block.replace(self.priority, String(notification.priority).utf8)
        self.block.replace(self.expiration, String(notification.expirationEpochSeconds).utf8)
        self.block.replace(self.identifier, push.identifier)
        return self.block
    }

    /// After the first request HPACK knows the names; from now on the values are not worth its table.
    mutating func submitted() {
        guard self.isFirst else { return }
        self.isFirst = false
        self.block.setIndexed(self.expiration, false)
        self.block.setIndexed(self.identifier, false)
    }
}
