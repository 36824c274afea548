import Model

/// Points in time as events write them.
enum Moment {
    /// Seconds since 1970 of the years 0000 to 9999, which texts can have.
    private static let years: ClosedRange<Int64> = -62_167_219_200...253_402_300_799

    /// Returns a moment in the form of an order, `2025-03-05T16:02:11Z`; a fraction is cut off.
    ///
    /// - Parameters:
    ///   - value: a number since 1970, or a text with date and time.
    ///   - unit: that of a number: `s`, `ms`, `us`, `ns`, `days`. Of a text without an offset, its time zone.
    static func text(of value: HostValue, _ unit: String?) -> HostValue {
        switch value {
        case .null, .error: return .error("time: there is no value")
        case .integer(let number): return self.number(number, unit, value)
        case .text(let text):
            if let units = unit.flatMap({ self.units[$0] }) {
                // A number with a fraction, which arrives as its text.
                let parts = text.split(separator: ".", omittingEmptySubsequences: false)
                guard parts.count <= 2, let whole = Int64(parts[0]),
                    parts.count == 1 || units != 0 && parts[1].utf8.allSatisfy({ $0 &- UInt8(ascii: "0") < 10 })
                else { return .error("time: \(value.shown) is not a number") }
                return self.number(whole, unit, value)
            }
            return self.local(text, unit, value)
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

    private static func local(_ text: String, _ zone: String?, _ value: HostValue) -> HostValue {
        var text = text
        var bytes = Array(text.utf8)
        if bytes.count == 10 { bytes += Array("T00:00:00".utf8) }
        if bytes.count == 16 { bytes += Array(":00".utf8) }
        if bytes.count > 10, bytes[10] == 0x20 || bytes[10] == UInt8(ascii: "t") { bytes[10] = UInt8(ascii: "T") }
        if bytes.last == UInt8(ascii: "z") { bytes[bytes.count - 1] = UInt8(ascii: "Z") }
        for end in [" UTC", " GMT"] where bytes.count > 19 && bytes.suffix(4).elementsEqual(end.utf8) {
            bytes = bytes.dropLast(4) + [UInt8(ascii: "Z")]
        }
        let tail = bytes.dropFirst(19)
        if let sign = tail.lastIndex(where: { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "-") }) {
            if bytes[sign - 1] == 0x20 { bytes.remove(at: sign - 1) }
            let start = bytes.lastIndex { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "-") } ?? sign
            let digits = bytes[(start + 1)...].filter { $0 != UInt8(ascii: ":") }
            if digits.count == 2 { bytes = bytes[..<(start + 1)] + digits + Array(":00".utf8) }
            if digits.count == 4 {
                bytes = bytes[..<(start + 1)] + digits.prefix(2) + [UInt8(ascii: ":")] + digits.suffix(2)
            }
        }
        text = String(decoding: bytes, as: UTF8.self)
        if let seconds = RFC3339.parse(text) { return .text(RFC3339.format(epochSeconds: seconds)) }
        guard let seconds = RFC3339.parse(text + "Z") else {
            return .error("time: \"\(value.shown)\" is not a date and time")
        }
        guard let zone else {
            return .error("time: \"\(value.shown)\" has no offset: name its zone, like \"Europe/Berlin\" or \"UTC\"")
        }
        guard let rules = TimeZoneFile.named(zone) else {
            return .error("time: there is no time zone \"\(zone)\" on this machine")
        }
        return .text(RFC3339.format(epochSeconds: rules.epochSeconds(ofLocal: seconds)))
    }
}
