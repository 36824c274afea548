/// The headers that a record gains when it becomes a dead letter.
///
/// Source: DESIGN.md §3
public enum DeadLetterHeader {
    /// `ChangeFault.Code`
    public static let error = "waybill-error"
    /// `ChangeFault.reason`
    public static let reason = "waybill-reason"
    /// `topic/partition/offset`
    public static let origin = "waybill-origin"
}
