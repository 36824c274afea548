/// Dates of HTTP headers.
///
/// Source: RFC 9110 §5.6.7
enum HTTPDate {
    private static let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`
    static func format(epochSeconds: Int64) -> String {
        let days = epochSeconds.flooredQuotient(86400)
        let second = epochSeconds - days * 86400
        let (year, month, day) = civil(days)
        // 1970-01-01 was a Thursday.
        let weekday = Int((days + 4) - (days + 4).flooredQuotient(7) * 7)
        let time = [second / 3600, second / 60 % 60, second % 60].map(twoDigits).joined(separator: ":")
        return "\(Self.weekdays[weekday]), \(twoDigits(day)) \(Self.months[Int(month) - 1]) \(year) \(time) GMT"
    }

    /// - Parameter text: IMF-fixdate, RFC 850 date, asctime date, or seconds since 1970, which some clients send.
    /// - Returns: UNIX seconds, nil if it is none of these.
    static func parse(_ text: String) -> Int64? {
        let words = text.split(separator: " ")
        switch words.count {
        case 1: return Double(text).flatMap { $0.isFinite && abs($0) < 1e12 ? Int64($0) : nil }
        case 6 where words[5] == "GMT": return Self.date(words[1], words[2], words[3], words[4])
        case 4 where words[3] == "GMT":
            let parts = words[1].split(separator: "-")
            guard parts.count == 3, let short = Int64(parts[2]), parts[2].count == 2 else { return nil }
            // Two-digit years of 70 and above belong to the last century; Waybill is younger than that.
            return Self.date(parts[0], parts[1], "\(short + (short >= 70 ? 1900 : 2000))", words[2])
        case 5: return Self.date(words[2], words[1], words[4], words[3])
        default: return nil
        }
    }

    private static func date(
        _ day: some StringProtocol, _ month: some StringProtocol, _ year: some StringProtocol,
        _ time: some StringProtocol
    ) -> Int64? {
        let clock = time.split(separator: ":").map { Int64($0) ?? -1 }
        guard let day = Int64(day), (1...31).contains(day), let month = Self.months.firstIndex(of: String(month)),
            let year = Int64(year), (1970...9999).contains(year), clock.count == 3, (0..<24).contains(clock[0]),
            (0..<60).contains(clock[1]), (0...60).contains(clock[2])
        else { return nil }
        return daysFromCivil(year, Int64(month) + 1, day) * 86400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    }
}

private func twoDigits(_ value: Int64) -> String { value < 10 ? "0\(value)" : "\(value)" }

extension Int64 {
    fileprivate func flooredQuotient(_ divisor: Int64) -> Int64 {
        let quotient = self / divisor
        return self % divisor < 0 ? quotient - 1 : quotient
    }
}

/// Days since 1970-01-01 as year, month, day of the Gregorian calendar.
///
/// The year is counted from March, so that the leap day is its last; 400 years have 146,097 days.
private func civil(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
    let shifted = days + 719_468
    let era = shifted.flooredQuotient(146_097)
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
}

/// The reverse of `civil`.
private func daysFromCivil(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    let shiftedYear = month <= 2 ? year - 1 : year
    let era = shiftedYear.flooredQuotient(400)
    let yearOfEra = shiftedYear - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
}
