/// What a client sent for one notification, as it came: nothing is checked yet.
public struct APNSSimulatorRequest: Hashable, Sendable {
    public var method = ""
    public var path = ""
    public var topic: String?
    public var pushType: String?
    public var priority: String?
    public var expiration: String?
    public var identifier: String?
    public var collapseIdentifier: String?
    public var authorization: String?
    /// A header that APNs knows stood more than once.
    public var hasDuplicates = false
    public var body: [UInt8] = []

    public init() {}

    /// Takes one header field in; unknown ones are ignored as APNs does.
    ///
    /// Source: Wallet Orders §4.3
    public mutating func take(name: String, value: String) {
        switch name {
        case ":method": self.method = value
        case ":path": self.path = value
        case "apns-topic": self.set(\.topic, value)
        case "apns-push-type": self.set(\.pushType, value)
        case "apns-priority": self.set(\.priority, value)
        case "apns-expiration": self.set(\.expiration, value)
        case "apns-id": self.set(\.identifier, value)
        case "apns-collapse-id": self.set(\.collapseIdentifier, value)
        case "authorization": self.set(\.authorization, value)
        default: break
        }
    }

    private mutating func set(_ member: WritableKeyPath<Self, String?>, _ value: String) {
        if self[keyPath: member] != nil { self.hasDuplicates = true }
        self[keyPath: member] = value
    }

    /// What stands behind `/3/device/`; nil when the path is another one.
    public var deviceToken: Substring? {
        let prefix = "/3/device/"
        guard self.path.hasPrefix(prefix) else { return self.path == "/3/device" ? "" : nil }
        let token = self.path.dropFirst(prefix.count)
        return token.utf8.contains(UInt8(ascii: "/")) ? nil : token
    }
}
