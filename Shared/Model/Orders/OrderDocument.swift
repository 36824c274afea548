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
