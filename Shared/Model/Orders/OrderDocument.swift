/// An order as upstream describes it: order.json without what Waybill owns.
///
/// `schemaVersion` stays in it when it was given, since it is a wish that is honoured.
/// Source: DESIGN.md §3; Wallet Orders §3.1
public struct OrderDocument: Hashable, Sendable {
    public var members: JSONObject

    public init(members: JSONObject) { self.members = members }

    /// The document of an order that was removed.
    public static let empty = OrderDocument(members: JSONObject())

    /// Largest document, in bytes as JSON: updates must not let an order grow without end.
    public static let sizeLimit = 1 << 20
}
