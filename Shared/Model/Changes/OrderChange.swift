/// The content of one event of `waybill.order-changes` about one order.
///
/// The data is not checked against the order: only the fold can decide whether the order is valid with it.
/// Source: Design §3
public struct OrderChange: Hashable, Sendable {
    /// The kind of change to the order.
    public enum Kind: Hashable, Sendable {
        /// The document becomes the order's state. It may still have members that Waybill owns; the fold removes them.
        case replaced(OrderDocument)
        /// A part of the order as its source sees it; `owns` names the paths that this source alone writes, nil leaves
        /// them as they are. See `Contributions`.
        case merged(JSONObject, owns: OwnedPaths?)
        /// A merge patch (RFC 7396) of the order.
        case patched(JSONObject)
        /// A merge patch of the fulfillment with that identifier.
        case fulfillmentUpdated(identifier: String, JSONObject)
        /// A merge patch of the return with that identifier.
        case returnUpdated(identifier: String, JSONObject)
        /// Devices are to be notified again; `touch` makes a new version for that.
        case announced(touch: Bool)
        /// The order was removed.
        case removed
    }

    public let key: OrderKey
    /// Together with `id`, the identity of the change.
    public let source: String
    public let id: String
    /// Digits that order the changes of one source, or nil when the source does not number them.
    public let sequence: String?
    /// The moment of the event, milliseconds since 1970, or nil if the event does not state it.
    public let epochMilliseconds: Int64?
    /// True if devices are not to be notified of it.
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

    /// Returns true if the source of both numbered this change below the other one.
    func precedes(_ other: OrderChange) -> Bool {
        guard self.source == other.source else { return false }
        guard let sequence = self.sequence, let later = other.sequence else { return false }
        return isLowerNumber(sequence, than: later)
    }

    /// The longest value that is accepted, in bytes: 1 MiB, which is also Kafka's default for a record.
    public static let valueLimit = 1 << 20
    /// The longest `source`, in bytes: it is stored with the order if the source numbers its changes.
    static let sourceLimit = 512
    /// The longest `id`, in bytes.
    static let idLimit = 1024
    /// The longest `sequence`, in digits.
    static let sequenceLimit = 128
}
