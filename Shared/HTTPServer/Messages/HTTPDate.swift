import FoundationEssentials
import Model

/// Dates of HTTP headers.
///
/// Source: RFC 9110 §5.6.7
public enum HTTPDate {
    private static let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Formats an IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`
    ///
    /// - Parameter epochSeconds: 0 or more.
    public static func format(epochSeconds: Int64) -> String {
        let seconds = max(0, epochSeconds)
        // 1994-11-06T08:49:37Z
        let source = RFC3339.format(epochSeconds: seconds)
        let digits = source.utf8.span
        let month = Int(digits[5] - 0x30) * 10 + Int(digits[6] - 0x30)
        var text: [UInt8] = []
        text.reserveCapacity(29)
        func copy(_ range: Range<Int>) { for index in range { text.append(digits[index]) } }
        text += Self.weekdays[Int(seconds / 86400 % 7)].utf8
        text += ", ".utf8
        copy(8..<10)
        text.append(.space)
        text += Self.months[month - 1].utf8
        text.append(.space)
        copy(0..<4)
        text.append(.space)
        copy(11..<19)
        text += " GMT".utf8
        return String(decoding: text, as: UTF8.self)
    }

    /// - Parameters:
    ///   - text: IMF-fixdate, RFC 850 date, asctime date, or seconds since 1970, which some clients send, also with a
    ///     fraction. The day of the week is ignored.
    ///   - now: UNIX seconds, for the century of a two-digit year; evaluated only for such a year.
    /// - Returns: UNIX seconds, nil if it is none of these.
    public static func parse(_ text: String, now: @autoclosure () -> Int64 = Self.now) -> Int64? {
        if let moment = Self.fixed(text) { return moment }
        let words = text.split(separator: " ")
        switch words.count {
        case 1: return Self.epochSeconds(words[0])
        case 6 where words[5] == "GMT": return Self.date(words[1], words[2], words[3], words[4])
        case 4 where words[3] == "GMT":
            let parts = words[1].split(separator: "-")
            guard parts.count == 3, parts[2].utf8.count == 2, let year = Self.number(parts[2], digits: 2) else {
                return nil
            }
            return Self.date(parts[0], parts[1], String(Self.year(endingIn: year, now: now())), words[2])
        case 5: return Self.date(words[2], words[1], words[4], words[3])
        default: return nil
        }
    }

    /// Parses an IMF-fixdate, which nearly all clients send, without splitting the text; nil for any other form.
    private static func fixed(_ text: String) -> Int64? {
        let bytes = text.utf8.span
        guard bytes.count == 29, bytes[4] == .space, bytes.extracting(25..<29).isEqual(" GMT"),
            let month = Self.months.firstIndex(where: { $0.utf8.elementsEqual([bytes[8], bytes[9], bytes[10]]) })
        else { return nil }
        var date: [UInt8] = []
        date.reserveCapacity(20)
        func copy(_ range: Range<Int>) { for index in range { date.append(bytes[index]) } }
        copy(12..<16)
        date += [UInt8(ascii: "-"), 0x30 + UInt8((month + 1) / 10), 0x30 + UInt8((month + 1) % 10), UInt8(ascii: "-")]
        copy(5..<7)
        date.append(UInt8(ascii: "T"))
        copy(17..<25)
        date.append(UInt8(ascii: "Z"))
        return RFC3339.parse(String(decoding: date, as: UTF8.self))
    }

    /// The system's clock.
    public static var now: Int64 { Int64(Date().timeIntervalSince1970) }

    /// Completes a year: one that seems more than 50 years ahead is a century earlier. Source: RFC 9110 §5.6.7
    private static func year(endingIn digits: Int64, now: Int64) -> Int64 {
        // The mean length of a Gregorian year is exact enough: the rule is about half a century.
        let current = 1970 + max(0, now) / 31_556_952
        let year = current / 100 * 100 + digits
        return year > current + 50 ? year - 100 : year
    }

    /// Parses digits, optionally with a fraction, which is cut off. Thirteen digits would be milliseconds.
    private static func epochSeconds(_ text: Substring) -> Int64? {
        let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 1 || Self.number(parts[1], digits: 18) != nil else { return nil }
        return Self.number(parts[0], digits: 12)
    }

    private static func number(_ text: Substring, digits: Int) -> Int64? {
        let isNumber = (1...digits).contains(text.utf8.count) && text.utf8.allSatisfy { (0x30...0x39).contains($0) }
        return isNumber ? Int64(text) : nil
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
