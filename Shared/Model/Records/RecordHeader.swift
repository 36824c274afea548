/// The headers `waybill-…` of records: all names, with their topics, and the programs that write and believe them.
///
/// A program believes one only where none but Waybill writes: on a topic of Waybill's own, and there only in the shape
/// in which it is written. On `waybill.order-changes` and on topics of sources others write, too, so what arrives there
/// under such a name is dropped before the record goes anywhere else: see `isReserved`.
/// Source: Design §3
public enum RecordHeader: String, CaseIterable, Sendable {
    /// `ChangeFault.Code` or `PushDeadLetterCode`. The first of the headers that a dead letter adds to those that its
    /// record came with; nothing of the record follows it.
    case error = "waybill-error"
    /// `ChangeFault.reason`
    case reason = "waybill-reason"
    /// `topic/partition/offset`
    case origin = "waybill-origin"
    /// On a dead letter without its value and headers, which were too large: the reason.
    case omitted = "waybill-omitted"
    /// On a dead letter of a source's record: the record's timestamp, milliseconds since 1970.
    case time = "waybill-time"
    /// On a replayed change: the dead letter that it was, `topic/partition/offset`. Believed if that dead letter has
    /// the same change.
    case replay = "waybill-replay"
    /// On a marker among the dead letters, which is not one itself: a dead letter that was replayed, by the digits of
    /// `DeadLetterRecord.formerIdentity`.
    case replayed = "waybill-replayed"
    /// On a marker like that of `replayed`: a dead letter that an operator closed without a replay.
    case purged = "waybill-purged"
    /// On the marker of `purged`: the name of the person. The time is that of the marker.
    case purgedBy = "waybill-purged-by"
    /// On a marker: the dead letter, by the digits of `DeadLetterRecord.identity`.
    case identity = "waybill-identity"
    /// On the event of a webhook: the name of its merchant. It is data, which the source's program gets.
    case merchant = "waybill-merchant"
    /// Marks a version that no device is to be notified of, with the value `1`. The next notification covers it as
    /// well. Also on registrations that moved to another partition.
    case silent = "waybill-silent"
    /// On the tombstone of a removed order: the record that it would have, with an empty document.
    case removed = "waybill-removed"
    /// On a tombstone in a partition that is no longer the order's, with the value `1`: the order goes on in another
    /// one.
    case moved = "waybill-moved"
    /// On a tombstone of a push that waited: the offset, in decimal digits, of the record in the same partition that is
    /// done. A record with the key between that record and the tombstone is not done.
    case completed = "waybill-completed"
    /// On a record of several changes, a version or a push that waits: the `traceparent` of the others, newest first,
    /// separated by commas.
    case links = "waybill-links"

    /// The beginning of all names.
    public static let prefix = "waybill-"

    /// True for a name that Waybill keeps to itself.
    public static func isReserved(_ name: String) -> Bool { name.utf8.starts(with: Self.prefix.utf8) }

    /// The use of a header, as documents say it: its topic, its writers and its readers.
    public var use: (topic: String, writers: String, readers: String) {
        let letters = "`waybill.dead-letters`"
        return switch self {
        case .error, .reason, .origin: (letters, "packager, ingest, pusher", "`dead-letters`, `notify`")
        case .omitted: (letters, "packager, ingest", "`dead-letters`")
        case .time: (letters, "ingest", "`dead-letters`")
        case .replay: ("`waybill.order-changes`", "`dead-letters replay`", "`dead-letters replay`")
        case .replayed: (letters, "`dead-letters replay`, packager", "`dead-letters`, `notify`, packager")
        case .purged, .purgedBy: (letters, "`dead-letters purge`, `forget`", "`dead-letters`, `notify`, packager")
        case .identity: (letters, "with `waybill-replayed`, `waybill-purged`", "`dead-letters`, `notify`, packager")
        case .merchant: ("topics of webhooks", "checkout", "programs of sources, as data")
        case .silent: ("`waybill.orders`, `waybill.registrations`", "packager, `rekey`", "pusher")
        case .removed: ("`waybill.orders`", "packager, `rekey`", "packager, `restore`")
        case .moved: ("`waybill.orders`", "`rekey`", "packager, `restore`")
        case .completed: ("`waybill.push-pending`", "pusher", "pusher")
        case .links: ("`waybill.orders`, `waybill.push-pending`", "packager, pusher", "pusher")
        }
    }
}
