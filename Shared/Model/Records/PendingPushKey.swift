/// The devices that have yet to be notified: all devices of an order, or one of them.
public struct PendingPushKey: Hashable, Sendable {
    public let order: OrderKey
    /// The device; nil for every device that is registered for the order.
    public let device: DeviceIdentifier?

    public init(order: OrderKey, device: DeviceIdentifier? = nil) {
        self.order = order
        self.device = device
    }

    public init(_ registration: RegistrationKey) {
        self.init(order: registration.order, device: registration.device)
    }

    /// - Parameter text: `<type>/<id>` or `<device>/<type>/<id>`.
    public init(_ text: String) throws(IdentifierError) {
        let slashes = text.utf8.count { $0 == UInt8(ascii: "/") }
        if slashes > 1 {
            self.init(try RegistrationKey(text))
        } else {
            self.init(order: try OrderKey(text))
        }
    }

    /// `<type>/<id>`, or `<device>/<type>/<id>` with the device in plain text.
    public var text: String {
        guard let device else { return self.order.description }
        return RegistrationKey(device: device, order: self.order).text
    }
}
