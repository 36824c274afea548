import Model

/// Dates of HTTP headers.
///
/// Source: RFC 9110 §5.6.7
enum HTTPDate {
    private static let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`
    ///
    /// - Parameter epochSeconds: 0 or more.
    static func format(epochSeconds: Int64) -> String {
        let seconds = max(0, epochSeconds)
        // 1994-11-06T08:49:37Z
        let text = Array(RFC3339.format(epochSeconds: seconds).utf8)
        func part(_ range: Range<Int>) -> String { String(decoding: text[range], as: UTF8.self) }
        let weekday = Self.weekdays[Int(seconds / 86400 % 7)]
        let month = Self.months[(Int(part(5..<7)) ?? 1) - 1]
        return "\(weekday), \(part(8..<10)) \(month) \(part(0..<4)) \(part(11..<19)) GMT"
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
            guard parts.count == 3, parts[2].utf8.count == 2 else { return nil }
            // Two-digit years of 70 and above belong to the last century; Waybill is younger than that.
            return Self.date(parts[0], parts[1], (parts[2] < "70" ? "20" : "19") + parts[2], words[2])
        case 5: return Self.date(words[2], words[1], words[4], words[3])
        default: return nil
        }
    }

    private static func date(
        _ day: Substring, _ month: Substring, _ year: some StringProtocol, _ time: Substring
    ) -> Int64? {
        guard let index = Self.months.firstIndex(of: String(month)), (1...2).contains(day.utf8.count) else {
            return nil
        }
        let month = index < 9 ? "0\(index + 1)" : "\(index + 1)"
        return RFC3339.parse("\(year)-\(month)-\(day.utf8.count == 1 ? "0" : "")\(day)T\(time)Z")
    }
}
