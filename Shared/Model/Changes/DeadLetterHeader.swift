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
    /// On a letter that came without its value and headers, as they were too large: why.
    public static let omitted = "waybill-omitted"
    /// On a change that was put back: the letter it was, `topic/partition/offset`.
    public static let replay = "waybill-replay"
    /// On a note among the letters, which is no letter: the identity of a letter that was put back.
    public static let replayed = "waybill-replayed"
    /// All of them: what a change does not keep when it is put back.
    public static let all: Set<String> = [error, reason, origin, omitted, replay, replayed]
}
