/// The forms of texts in order.json, parsed independently of Model.
enum OrderText {
    /// Parses a date-time with zone into a comparable form: seconds since 1970 in the proleptic Gregorian calendar, and
    /// the fraction's digits. Source: RFC 3339 §5.6
    static func moment(_ text: String) -> (seconds: Int, fraction: String)? {
        let bytes = Array(text.utf8)
        guard bytes.count >= 20, Self.fits(bytes[..<19], "dddd-dd-ddTdd:dd:dd") else { return nil }
        func number(_ range: Range<Int>) -> Int { bytes[range].reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) } }
        let (year, month, day) = (number(0..<4), number(5..<7), number(8..<10))
        let (hour, minute, second) = (number(11..<13), number(14..<16), number(17..<19))
        guard (1...12).contains(month), day >= 1, day <= Self.days(month, year), hour < 24, minute < 60, second < 60
        else { return nil }
        var rest = bytes[19...]
        var fraction = ""
        if rest.first == UInt8(ascii: ".") {
            let digits = rest.dropFirst().prefix { $0 &- UInt8(ascii: "0") < 10 }
            guard !digits.isEmpty else { return nil }
            fraction = String(decoding: digits, as: UTF8.self)
            rest = rest.dropFirst(1 + digits.count)
        }
        var offset = 0
        if !rest.elementsEqual([UInt8(ascii: "Z")]) {
            guard Self.fits(rest, "+dd:dd") || Self.fits(rest, "-dd:dd") else { return nil }
            let start = rest.startIndex
            let (hours, minutes) = (number(start + 1..<start + 3), number(start + 4..<start + 6))
            guard hours < 24, minutes < 60 else { return nil }
            offset = (hours * 60 + minutes) * (rest.first == UInt8(ascii: "-") ? -60 : 60)
        }
        // Adds the whole years before this one, their leap days, and the days of this year before the month.
        let before = max(0, year - 1)
        let leapDays = before / 4 - before / 100 + before / 400 + (year > 0 ? 1 : 0)
        let days = year * 365 + leapDays + (1..<month).reduce(0) { $0 + Self.days($1, year) } + day - 1
        return ((days - 719_528) * 86_400 + hour * 3600 + minute * 60 + second - offset, fraction)
    }

    private static func days(_ month: Int, _ year: Int) -> Int {
        if month == 2 { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28 }
        return [4, 6, 9, 11].contains(month) ? 30 : 31
    }

    /// Returns true if the bytes match a pattern in which `d` is any digit.
    private static func fits(_ bytes: ArraySlice<UInt8>, _ pattern: StaticString) -> Bool {
        let pattern = Array(pattern.description.utf8)
        return bytes.count == pattern.count
            && zip(bytes, pattern).allSatisfy { $1 == UInt8(ascii: "d") ? $0 &- UInt8(ascii: "0") < 10 : $0 == $1 }
    }

    /// Returns true for `PT2H`, `P1DT12H`, `P0Y0M0DT0H30M0S`, `P2W`. Source: ISO 8601-1 §5.5.2
    static func isDuration(_ text: String) -> Bool {
        guard text.hasPrefix("P") else { return false }
        let halves = text.dropFirst().split(separator: "T", maxSplits: 1, omittingEmptySubsequences: false)
        if halves.count == 1, text.hasSuffix("W") { return Self.isRun(halves[0], of: "W") }
        guard let date = halves.first, Self.isRun(date, of: "YMD") else { return false }
        if halves.count == 1 { return !date.isEmpty }
        return !halves[1].isEmpty && Self.isRun(halves[1], of: "HMS")
    }

    /// Returns true for whole numbers, each with a unit, in the order of the units; the seconds may have a fraction.
    private static func isRun(_ text: Substring, of units: String) -> Bool {
        var left = units[...]
        var digits = ""
        for character in text {
            if character.isASCII, character.isNumber || character == "." {
                digits.append(character)
            } else {
                guard let place = left.firstIndex(of: character) else { return false }
                let parts = digits.split(separator: ".", omittingEmptySubsequences: false)
                guard parts.count <= (character == "S" ? 2 : 1), parts.allSatisfy({ !$0.isEmpty }) else { return false }
                left = left[left.index(after: place)...]
                digits = ""
            }
        }
        return digits.isEmpty
    }

    /// Returns true for an absolute URI: a scheme, then only valid characters. Source: RFC 3986 §2, §3.1, §4.3
    static func isLink(_ text: String) -> Bool {
        guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) else { return false }
        let scheme = text.utf8[..<colon]
        let isLetter = { (byte: UInt8) in (byte | 0x20) &- UInt8(ascii: "a") < 26 }
        guard let first = scheme.first, isLetter(first),
            scheme.allSatisfy({ isLetter($0) || $0 &- UInt8(ascii: "0") < 10 || "+-.".utf8.contains($0) })
        else { return false }
        let rest = text.utf8[text.utf8.index(after: colon)...]
        if String(scheme)?.lowercased().hasPrefix("http") == true {
            guard rest.starts(with: "//".utf8), let host = rest.dropFirst(2).first, host != UInt8(ascii: "/") else {
                return false
            }
        }
        return !rest.isEmpty && rest.allSatisfy { (0x21...0x7E).contains($0) && !"\"<>\\^`{|}".utf8.contains($0) }
    }

    /// Returns true for amounts such as `19.99` and `-5`: a decimal point, no grouping, no exponent.
    /// Source: Wallet Orders §3.5
    static func isAmount(_ text: String) -> Bool {
        let parts = (text.hasPrefix("-") ? text.dropFirst() : text[...])
            .split(separator: ".", omittingEmptySubsequences: false)
        return (1...2).contains(parts.count)
            && parts.allSatisfy { !$0.isEmpty && $0.utf8.allSatisfy { $0 &- UInt8(ascii: "0") < 10 } }
    }
}
