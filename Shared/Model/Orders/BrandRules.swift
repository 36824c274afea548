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
