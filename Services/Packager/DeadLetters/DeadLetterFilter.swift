import Kafka
import Model

/// Which letters are meant. What is nil matches all.
struct DeadLetterFilter: Hashable, Sendable {
    var code: String?
    /// An order's whole key, `<orderTypeIdentifier>/<orderIdentifier>`.
    var order: String?
    /// An order type identifier.
    var type: String?
    /// Milliseconds since 1970, of the letter; the first is in, the second is not.
    var since: Int64?
    var until: Int64?
    /// One letter, and with it its doubles.
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
