/// An order as upstream describes it: order.json without what Waybill owns.
///
/// `schemaVersion` stays in it when it was given, since it is a wish that is honoured.
/// Source: Design §3; Wallet Orders §3.1
public struct OrderDocument: Hashable, Sendable {
    public var members: JSONObject { didSet { self.known = nil } }
    /// The members as JSON, if that was made already.
    private var known: [UInt8]?

    public init(members: JSONObject) { self.members = members }

    /// A receipt that never updates: its package names no service and no token, so that no device registers. It is
    /// fetched with its token all the same.
    ///
    /// Source: Wallet Orders §3.1
    public var isStatic: Bool { self.members["webServiceURL"] == .null }

    /// The document as JSON in UTF-8, members sorted.
    public var serialized: [UInt8] { self.known ?? self.members.serialized }

    /// Keeps `serialized`: a new version is written to Redis and to Kafka.
    mutating func keepSerialized() { self.known = self.serialized }

    public static func == (left: OrderDocument, right: OrderDocument) -> Bool { left.members == right.members }

    public func hash(into hasher: inout Hasher) { hasher.combine(self.members) }

    /// The document of an order that was removed.
    public static let empty = OrderDocument(members: JSONObject())

    /// Largest document, in bytes as JSON: updates must not let an order grow without end.
    public static let sizeLimit = 1 << 20
}
