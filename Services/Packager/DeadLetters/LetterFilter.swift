import Kafka
import Model

/// Which letters are meant. What is nil matches all.
struct LetterFilter: Hashable, Sendable {
    var code: String?
    /// An order's whole key, `<orderTypeIdentifier>/<orderIdentifier>`.
    var order: String?
    /// An order type identifier.
    var type: String?
    /// Milliseconds since 1970, of the letter; the first is in, the second is not.
    var since: Int64?
    var until: Int64?
    /// One letter, and with it its doubles.
    var position: LetterPosition?

    func matches(_ letter: Letter) -> Bool {
        if let code = self.code, letter.code != code { return false }
        if let order = self.order, letter.order != order { return false }
        if let type = self.type, !letter.order.hasPrefix("\(type)/") { return false }
        if let since = self.since, letter.record.timestampMilliseconds < since { return false }
        if let until = self.until, letter.record.timestampMilliseconds >= until { return false }
        return true
    }

    /// Reads a moment: `2025-03-05T16:02:11Z`, or how long ago: `90s`, `30m`, `6h`, `2d`.
    ///
    /// - Returns: milliseconds since 1970, nil for anything else.
    static func moment(_ text: String, nowMilliseconds: Int64) -> Int64? {
        if let seconds = RFC3339.parse(text) { return seconds * 1000 }
        let units: [Character: Int64] = ["s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000]
        guard let last = text.last, let unit = units[last], let count = Int64(text.dropLast()),
            (0...1_000_000).contains(count)
        else { return nil }
        return nowMilliseconds - count * unit
    }
}
