/// The headers that a record gains when it becomes a dead letter.
///
/// Source: Design §3
public enum DeadLetterHeader {
    /// `ChangeFault.Code`
    public static let error = "waybill-error"
    /// `ChangeFault.reason`
    public static let reason = "waybill-reason"
    /// `topic/partition/offset`
    public static let origin = "waybill-origin"
    /// On a dead letter without its value and headers, which were too large: the reason.
    public static let omitted = "waybill-omitted"
    /// On a replayed change: the dead letter that it was, `topic/partition/offset`.
    public static let replay = "waybill-replay"
    /// On a note among the dead letters, which is not one itself: the identity of a dead letter that was replayed.
    public static let replayed = "waybill-replayed"
    /// All of them; a replayed change does not keep them.
    public static let all: Set<String> = [error, reason, origin, omitted, replay, replayed]
}
