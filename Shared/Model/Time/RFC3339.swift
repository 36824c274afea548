/// Moments as orders write them: `2025-03-05T16:02:11Z`.
///
/// Stricter than RFC 3339 where Wallet Orders is (`order.schema.json`, `dateTime`): `T` and `Z` in capitals, a zone in
/// every value. Leap seconds (`:60`) are refused: no clock here makes them and many parsers trip over them.
/// Source: RFC 3339 §5.6; Wallet Orders §3
public enum RFC3339 {
    /// - Returns: seconds since 1970 without the fraction; nil if the text is not a date-time of the calendar.
    public static func parse(_ text: String) -> Int64? { self.instant(text)?.epochSeconds }

    /// - Parameter epochSeconds: clamped to the years 0000 to 9999, so that there is always a result.
    /// - Returns: `2025-03-05T16:02:11Z`, always in UTC and without a fraction.
    public static func format(epochSeconds: Int64) -> String {
        let seconds = min(max(epochSeconds, self.earliest), self.latest)
        let day = seconds >= 0 ? seconds / 86_400 : -((86_399 - seconds) / 86_400)
        let clock = seconds - day * 86_400
        let date = self.date(epochDay: day)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(20)
        func put(_ value: Int64, _ digits: Int, then separator: UInt8) {
            var divisor: Int64 = digits == 4 ? 1000 : 10
            for _ in 0..<digits {
                bytes.append(UInt8(ascii: "0") + UInt8(value / divisor % 10))
                divisor = max(divisor / 10, 1)
            }
            bytes.append(separator)
        }
        put(date.year, 4, then: UInt8(ascii: "-"))
        put(date.month, 2, then: UInt8(ascii: "-"))
        put(date.day, 2, then: UInt8(ascii: "T"))
        put(clock / 3600, 2, then: UInt8(ascii: ":"))
        put(clock / 60 % 60, 2, then: UInt8(ascii: ":"))
        put(clock % 60, 2, then: UInt8(ascii: "Z"))
        return String(decoding: bytes, as: UTF8.self)
    }

    /// A moment with its fraction, for comparisons.
    struct Instant: Comparable {
        let epochSeconds: Int64
        /// The first nine digits of the fraction.
        let nanoseconds: Int64

        /// Milliseconds since 1970, with the fraction truncated to three digits.
        var epochMilliseconds: Int64 { self.epochSeconds * 1000 + self.nanoseconds / 1_000_000 }

        /// The first whole second that is not before this moment.
        var roundedUp: Int64 { self.nanoseconds == 0 ? self.epochSeconds : self.epochSeconds + 1 }

        static func < (left: Instant, right: Instant) -> Bool {
            (left.epochSeconds, left.nanoseconds) < (right.epochSeconds, right.nanoseconds)
        }
    }

    /// 0000-01-01T00:00:00Z
    static let earliest: Int64 = -62_167_219_200
    /// 9999-12-31T23:59:59Z
    static let latest: Int64 = 253_402_300_799

    /// - Returns: nil if the text is not a date-time of the calendar.
    static func instant(_ text: String) -> Instant? {
        let bytes = text.utf8.span
        guard bytes.count >= 20, bytes.count <= 64,
            bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"), bytes[10] == UInt8(ascii: "T"),
            bytes[13] == UInt8(ascii: ":"), bytes[16] == UInt8(ascii: ":"),
            let year = self.number(bytes, 0, 4), let month = self.number(bytes, 5, 2),
            let day = self.number(bytes, 8, 2), let hour = self.number(bytes, 11, 2),
            let minute = self.number(bytes, 14, 2), let second = self.number(bytes, 17, 2),
            (1...12).contains(month), day >= 1, day <= self.days(inMonth: month, ofYear: year),
            hour < 24, minute < 60, second < 60
        else { return nil }
        var position = 19
        var nanoseconds: Int64 = 0
        if bytes[position] == UInt8(ascii: ".") {
            position += 1
            let start = position
            var unit: Int64 = 100_000_000
            while position < bytes.count, bytes[position] &- UInt8(ascii: "0") < 10 {
                nanoseconds += unit * Int64(bytes[position] - UInt8(ascii: "0"))
                unit /= 10
                position += 1
            }
            guard position > start else { return nil }
        }
        guard let offset = self.zone(bytes, at: position) else { return nil }
        let epochDay = self.epochDay(year: year, month: month, day: day)
        return Instant(
            epochSeconds: epochDay * 86_400 + hour * 3600 + minute * 60 + second - offset, nanoseconds: nanoseconds)
    }

    /// - Returns: seconds east of Greenwich; nil if the rest of the text is not a zone.
    private static func zone(_ bytes: Span<UInt8>, at position: Int) -> Int64? {
        guard position < bytes.count else { return nil }
        if bytes[position] == UInt8(ascii: "Z") { return position + 1 == bytes.count ? 0 : nil }
        guard position + 6 == bytes.count, bytes[position + 3] == UInt8(ascii: ":"),
            bytes[position] == UInt8(ascii: "+") || bytes[position] == UInt8(ascii: "-"),
            let hours = self.number(bytes, position + 1, 2), let minutes = self.number(bytes, position + 4, 2),
            hours < 24, minutes < 60
        else { return nil }
        let seconds = hours * 3600 + minutes * 60
        return bytes[position] == UInt8(ascii: "-") ? -seconds : seconds
    }

    private static func number(_ bytes: Span<UInt8>, _ start: Int, _ count: Int) -> Int64? {
        var value: Int64 = 0
        for index in start..<start + count {
            let digit = bytes[index] &- UInt8(ascii: "0")
            guard digit < 10 else { return nil }
            value = value * 10 + Int64(digit)
        }
        return value
    }

    private static func days(inMonth month: Int64, ofYear year: Int64) -> Int64 {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// Returns the days since 1970-01-01 in the proleptic Gregorian calendar.
    ///
    /// Years are taken to begin in March, so that the leap day is their last, and are counted in eras of 400 years.
    private static func epochDay(year: Int64, month: Int64, day: Int64) -> Int64 {
        let shifted = month > 2 ? year : year - 1
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    /// Returns the date of a day: the inverse of `epochDay`.
    private static func date(epochDay: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let days = epochDay + 719_468
        let era = (days >= 0 ? days : days - 146_096) / 146_097
        let dayOfEra = days - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shifted = (5 * dayOfYear + 2) / 153
        let month = shifted < 10 ? shifted + 3 : shifted - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * shifted + 2) / 5 + 1)
    }
}

extension RFC3339 {
    /// The end of an error about text that is not such a point in time.
    public static let momentForms = "must be a time such as 2025-03-05T16:02:11Z, or an age such as 90s, 30m, 6h, 2d"

    /// Parses a point in time as a person types it: RFC 3339, or the time since then as 90s, 30m, 6h or 2d.
    ///
    /// - Returns: milliseconds since 1970; nil for anything else.
    public static func moment(_ text: String, nowMilliseconds: Int64) -> Int64? {
        if let seconds = RFC3339.parse(text) { return seconds * 1000 }
        let units: [Character: Int64] = ["s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000]
        guard let last = text.last, let unit = units[last], let count = Int64(text.dropLast()),
            (0...1_000_000).contains(count)
        else { return nil }
        return nowMilliseconds - count * unit
    }
}
