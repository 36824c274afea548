import Kafka
import Model

/// Selects dead letters. A member that is nil matches all.
struct DeadLetterFilter: Hashable, Sendable {
    var code: String?
    /// An order's whole key, `<orderTypeIdentifier>/<orderIdentifier>`.
    var order: String?
    /// An order type identifier.
    var type: String?
    /// Bounds on the dead letter's timestamp, in milliseconds since 1970: the first inclusive, the second exclusive.
    var since: Int64?
    var until: Int64?
    /// One dead letter, with its duplicates.
    var position: DeadLetterPosition?

    func matches(_ letter: DeadLetterRecord) -> Bool {
        if let code = self.code, letter.code != code { return false }
        if let order = self.order, letter.order != order { return false }
        if let type = self.type, !letter.order.hasPrefix("\(type)/") { return false }
        if let since = self.since, letter.record.timestampMilliseconds < since { return false }
        if let until = self.until, letter.record.timestampMilliseconds >= until { return false }
        return true
    }
}
