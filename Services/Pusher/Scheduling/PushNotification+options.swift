import APNS
import Brands
import Model

extension PushNotification {
    /// A notification with its brand's options.
    init(
        deviceToken: PushToken, topic: OrderTypeIdentifier, options: PushOptions, nowEpochSeconds: Int64
    ) {
        self.init(
            deviceToken: deviceToken, topic: topic,
            expirationEpochSeconds: options.expirationEpochSeconds(nowEpochSeconds: nowEpochSeconds))
        self.pushType =
            switch options.kind {
            case .background: .background
            case .alert: .alert
            }
        self.priority = UInt8(options.priority.rawValue)
        self.collapseIdentifier = options.collapseIdentifier
    }
}
