/// An order as upstream describes it: order.json without what Waybill owns.
///
/// `schemaVersion` stays in it if it was given, since that request is honoured.
/// Source: Design §3; Wallet Orders §3.1
public struct OrderDocument: Hashable, Sendable {
    public var members: JSONObject { didSet { self.known = nil } }
    /// The members as JSON, if already serialized.
    private var known: [UInt8]?

    public init(members: JSONObject) { self.members = members }

    /// True for a receipt that never updates: its package names no service and no token, so no device registers. It is
    /// still fetched with its token.
    ///
    /// Source: Wallet Orders §3.1
    public var isStatic: Bool { self.members["webServiceURL"] == .null }

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

/// The members that Waybill and the brand add to the document in order.json, sorted by name.
struct AddedMembers {
    struct Member {
        let name: String
        /// The value; nil if the member is left out.
        let value: JSON?
        /// True if the document's own member takes precedence.
        var isDefault = false
    }

    let members: [Member]

    /// - Parameter schemaVersion: the version for a document that does not ask for one.
    init(
        isStatic: Bool, schemaVersion: Int64, key: OrderKey, token: AuthenticationToken, modifiedEpochSeconds: Int64,
        rules: BrandRules
    ) {
        self.members = [
            Member(name: "authenticationToken", value: isStatic ? nil : .string(token.rawValue)),
            Member(
                name: "changeNotifications", value: rules.changeNotifications.map { .string($0.rawValue) },
                isDefault: true),
            Member(name: "merchant", value: rules.merchant.map { .object($0) }, isDefault: true),
            Member(name: "orderIdentifier", value: .string(key.order.rawValue)),
            Member(name: "orderType", value: "ecommerce"),
            Member(name: "orderTypeIdentifier", value: .string(key.orderType.rawValue)),
            Member(name: "returnInfo", value: rules.returnInfo.map { .object($0) }, isDefault: true),
            Member(name: "schemaVersion", value: .integer(schemaVersion), isDefault: true),
            Member(name: "updatedAt", value: .string(RFC3339.format(epochSeconds: modifiedEpochSeconds))),
            Member(name: "webServiceURL", value: isStatic ? nil : .string(rules.webServiceURL)),
        ]
    }
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
