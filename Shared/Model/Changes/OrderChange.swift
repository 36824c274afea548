/// The content of one event of `waybill.order-changes` about one order.
///
/// The data is not checked against the order: only the fold can tell if the order is valid with it.
/// Source: Design §3
public struct OrderChange: Hashable, Sendable {
    /// The kind of change to the order.
    public enum Kind: Hashable, Sendable {
        /// The document becomes the order's state. It may still hold what Waybill owns; the fold takes that out.
        case replaced(OrderDocument)
        /// A part of the order as its source sees it; `owns` names what this source alone writes, nil says nothing of
        /// that. See `Contributions`.
        case merged(JSONObject, owns: OwnedPaths?)
        /// A merge patch (RFC 7396) of the order.
        case patched(JSONObject)
        /// A merge patch of the fulfillment with that identifier.
        case fulfillmentUpdated(identifier: String, JSONObject)
        /// A merge patch of the return with that identifier.
        case returnUpdated(identifier: String, JSONObject)
        /// Devices are to be told again; `touch` makes a new version for it.
        case announced(touch: Bool)
        /// The order is gone.
        case removed
    }

    public let key: OrderKey
    /// With `id` the identity of the change.
    public let source: String
    public let id: String
    /// Digits that order the changes of one source, or nil when the source does not number them.
    public let sequence: String?
    /// When it happened, milliseconds since 1970, or nil when the event does not say so.
    public let epochMilliseconds: Int64?
    /// Devices are not to be told of it.
    public let isSilent: Bool
    public let kind: Kind

    public init(
        key: OrderKey, source: String, id: String, sequence: String? = nil, epochMilliseconds: Int64? = nil,
        isSilent: Bool = false, kind: Kind
    ) {
        self.key = key
        self.source = source
        self.id = id
        self.sequence = sequence
        self.epochMilliseconds = epochMilliseconds
        self.isSilent = isSilent
        self.kind = kind
    }

    /// Longest value that is taken, in bytes: 1 MiB, which is also Kafka's default for a record.
    public static let valueLimit = 1 << 20
    /// Longest `source`, in bytes: it is kept with the order when it numbers its changes.
    static let sourceLimit = 512
    /// Longest `id`, in bytes.
    static let idLimit = 1024
    /// Longest `sequence`, in digits.
    static let sequenceLimit = 128
}
