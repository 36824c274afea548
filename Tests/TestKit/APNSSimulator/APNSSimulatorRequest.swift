/// A client's request for one notification, as received: nothing is checked yet.
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
    /// True if a header that APNs knows occurred more than once.
    public var hasDuplicates = false
    /// The fields that are in HPACK's table or were added to it.
    public var indexed = Fields()
    public var body: [UInt8] = []

    public init() {}

    /// A set of header fields.
    public struct Fields: OptionSet, Hashable, Sendable {
        public let rawValue: UInt16
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        static let known = [
            ":path", "authorization", "apns-topic", "apns-push-type", "apns-priority", "apns-expiration", "apns-id",
            "apns-collapse-id",
        ]

        /// The fields' names.
        public var names: [String] {
            Self.known.enumerated().filter { self.rawValue >> $0.offset & 1 == 1 }.map(\.element)
        }
    }

    /// Notes that a field is in HPACK's table or was added to it.
    mutating func takeIndexed(_ name: String) {
        if let index = Fields.known.firstIndex(of: name) { self.indexed.insert(Fields(rawValue: 1 << index)) }
    }

    /// Processes one header field; unknown ones are ignored, as by APNs.
    ///
    /// Source: Wallet Orders §4.3
    public mutating func take(name: String, value: String) {
        switch name {
        case ":method": self.method = value
        case ":path": self.path = value
        case "apns-topic": Self.set(&self.topic, value, &self.hasDuplicates)
        case "apns-push-type": Self.set(&self.pushType, value, &self.hasDuplicates)
        case "apns-priority": Self.set(&self.priority, value, &self.hasDuplicates)
        case "apns-expiration": Self.set(&self.expiration, value, &self.hasDuplicates)
        case "apns-id": Self.set(&self.identifier, value, &self.hasDuplicates)
        case "apns-collapse-id": Self.set(&self.collapseIdentifier, value, &self.hasDuplicates)
        case "authorization": Self.set(&self.authorization, value, &self.hasDuplicates)
        default: break
        }
    }

    private static func set(_ member: inout String?, _ value: String, _ isDuplicate: inout Bool) {
        if member != nil { isDuplicate = true }
        member = value
    }

    /// The text after `/3/device/`, empty for `/3/device`; nil for any other path.
    public var deviceToken: Substring? {
        // Bytes, not characters: this runs several times for each request.
        let prefix = "/3/device/".utf8
        guard self.path.utf8.starts(with: prefix) else { return self.path == "/3/device" ? "" : nil }
        let token = self.path.utf8.dropFirst(prefix.count)
        return token.contains(UInt8(ascii: "/")) ? nil : Substring(token)
    }
}
