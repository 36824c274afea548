/// An order as upstream describes it: order.json without what Waybill owns.
///
/// `schemaVersion` stays in it if it was given, since that request is honoured.
/// Source: Design §3; Wallet Orders §3.1
public struct OrderDocument: Hashable, Sendable {
    public var members: JSONObject { didSet { self.known = nil } }
    /// The members as JSON, if already serialized.
    private var known: [UInt8]?

    public init(members: JSONObject) { self.members = members }

    /// - Parameter text: the members as JSON, as `serialized` made it.
    init(members: JSONObject, text: [UInt8]) {
        self.members = members
        self.known = text
    }

    /// True for a receipt that never updates: its package names no service and no token, so no device registers. It is
    /// still fetched with its token.
    ///
    /// Source: Wallet Orders §3.1
    public var isStatic: Bool { self.members["webServiceURL"] == .null }

    /// True for an order that is completed or cancelled.
    public var isEnded: Bool {
        let status = self.members["status"]?.string
        return status == "completed" || status == "cancelled"
    }

    /// The document as JSON in UTF-8, members sorted.
    public var serialized: [UInt8] { self.known ?? self.members.serialized }

    /// Caches `serialized`, since a new version is written both to Redis and to Kafka.
    mutating func keepSerialized() { self.known = self.serialized }

    public static func == (left: OrderDocument, right: OrderDocument) -> Bool { left.members == right.members }

    public func hash(into hasher: inout Hasher) { hasher.combine(self.members) }

    /// The document of an order that was removed.
    public static let empty = OrderDocument(members: JSONObject())

    /// The largest document, in bytes as JSON: updates must not let an order grow without limit.
    public static let sizeLimit = 1 << 20
}

/// The parts of an order that come from its brand.
///
/// Source: Design §6
public struct BrandRules: Sendable {
    public var orderType: OrderTypeIdentifier
    /// The `merchant` of orders that have none.
    public var merchant: JSONObject?
    /// The `returnInfo` of orders that have none.
    public var returnInfo: JSONObject?
    /// The `changeNotifications` of orders that have none; nil leaves them without, which Wallet takes for `enabled`.
    public var changeNotifications: ChangeNotifications?
    /// True if members that Wallet Orders does not know are passed through.
    public var passUnknownMembers: Bool
    /// The `https://…` URL that Wallet will call.
    public var webServiceURL: String
    /// Returns the reason why the URL of a receipt or a label can never be fetched, as the rest of a sentence about it;
    /// nil if it may be.
    public var linkFault: @Sendable (_ url: String) -> String? = { _ in nil }
    /// Returns what of a URL distinguishes its file from others; nil if all of it does.
    public var linkIdentity: (@Sendable (_ url: String, _ isPicture: Bool) -> String)?

    public init(
        orderType: OrderTypeIdentifier, merchant: JSONObject? = nil, returnInfo: JSONObject? = nil,
        changeNotifications: ChangeNotifications? = nil, passUnknownMembers: Bool = false, webServiceURL: String
    ) {
        self.orderType = orderType
        self.merchant = merchant
        self.returnInfo = returnInfo
        self.changeNotifications = changeNotifications
        self.passUnknownMembers = passUnknownMembers
        self.webServiceURL = webServiceURL
    }
}
