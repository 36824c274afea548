import Model

/// Points in time as events write them.
enum Moment {
    /// Seconds since 1970 of the years 0000 to 9999, which texts can have.
    private static let years: ClosedRange<Int64> = -62_167_219_200...253_402_300_799

    /// Returns a moment in the form of an order, `2025-03-05T16:02:11Z`; a fraction is cut off.
    ///
    /// - Parameters:
    ///   - value: a number since 1970, or a text with date and time in a form of `MomentText`.
    ///   - unit: that of a number: `s`, `ms`, `us`, `ns`, `days`. Of a text without an offset, its time zone.
    static func text(of value: HostValue, _ unit: String?) -> HostValue {
        switch value {
        case .null, .error: return .error("time: there is no value")
        case .integer(let number): return self.number(number, unit, value)
        case .text(let text), .decimal(let text):
            if let units = unit.flatMap({ self.units[$0] }) {
                // A number with a fraction, which arrives as its text.
                let parts = text.split(separator: ".", omittingEmptySubsequences: false)
                guard parts.count <= 2, let whole = Int64(parts[0]),
                    parts.count == 1 || units != 0 && parts[1].utf8.allSatisfy({ $0 &- UInt8(ascii: "0") < 10 })
                else { return .error("time: \(value.shown) is not a number") }
                return self.number(whole, unit, value)
            }
            // Eight digits are a date, and fourteen one with its time.
            if let number = Int64(text), text.utf8.count != 8, text.utf8.count != 14 {
                return self.number(number, unit, value)
            }
            do throws(MomentText.Refusal) {
                var seconds = RFC3339.parse(text)
                if seconds == nil { seconds = try MomentText(text).epochSeconds(in: unit) }
                guard let seconds, self.years.contains(seconds) else { throw .unreadable }
                return .text(RFC3339.format(epochSeconds: seconds))
            } catch {
                return .error("time: \"\(value.shown)\" \(error.reason)")
            }
        }
    }

    /// The number of each unit in a second; 0 for days.
    private static let units: [String: Int64] = [
        "s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000, "days": 0,
    ]

    private static func number(_ number: Int64, _ unit: String?, _ value: HostValue) -> HostValue {
        guard let unit, let count = self.units[unit] else {
            return .error("time: a number needs its unit: \"s\", \"ms\", \"us\", \"ns\" or \"days\"")
        }
        let seconds: Int64
        if count == 0 {
            let (product, isOver) = number.multipliedReportingOverflow(by: 86_400)
            seconds = isOver ? .max : product
        } else {
            seconds = number >= 0 ? number / count : -((count - 1 - number) / count)
        }
        guard self.years.contains(seconds) else {
            return .error("time: \(value.shown) in \(unit) is not in the years 0000 to 9999")
        }
        return .text(RFC3339.format(epochSeconds: seconds))
    }
}
