import Model

/// A date, with or without a time, as texts of other systems have it: only forms that have one meaning.
///
/// Sources: ISO 8601-1:2019, RFC 3339, RFC 9557, RFC 5322 §3.3; Microsoft, "Stand-Alone JSON Serialization",
/// `DateTime`, for `/Date(…)/`
struct MomentText {
    /// The reason why a text is refused: a predicate about it, with what to write instead.
    struct Refusal: Error {
        let reason: String

        init(_ reason: String) { self.reason = reason }

        static let unreadable = Refusal("is not a date and time: write it like 2026-01-10T10:05:00+01:00")
    }

    /// The distance from UTC.
    private enum Offset: Hashable {
        /// `Z`, or `-00:00`: that of the place is not told.
        case utc
        /// Seconds east of Greenwich.
        case seconds(Int64)
    }

    /// The most bytes of a text.
    private static let limit = 200

    /// Seconds since 1970 of the local time, as if it were UTC.
    private var local: Int64 = 0
    private var offset: Offset?
    /// The zone in brackets.
    private var zone: Substring?
    private var isZoneCritical = false
    private var cursor: TextCursor

    /// - Throws: `Refusal` for a text that is none of the forms, or no day of the calendar.
    init(_ text: String) throws(Refusal) {
        guard text.utf8.count <= Self.limit else { throw .unreadable }
        self.cursor = TextCursor(text)
        self.cursor.skipSpaces()
        if self.cursor.take("/Date(") {
            try self.readMilliseconds()
        } else if self.cursor.digits == 4 || self.cursor.digits == 8 || self.cursor.digits == 14 {
            try self.readNumericDate()
        } else {
            guard !self.cursor.isDayOrMonthFirst else {
                throw Refusal(
                    "may begin with the day or with the month: put the year first, like 2026-01-10, with waybill.split")
            }
            try self.readWrittenDate()
        }
        self.cursor.skipSpaces()
        guard self.cursor.isAtEnd else { throw .unreadable }
    }

    /// Returns the seconds since 1970.
    ///
    /// - Parameter zone: the name of the zone of a text that names neither offset nor zone.
    /// - Throws: `Refusal` if the zone is missing or unknown, or contradicts the offset.
    func epochSeconds(in zone: String?) throws(Refusal) -> Int64 {
        let named = try self.zone.map { (name) throws(Refusal) in try Self.rules(of: name) }
        if case .unknown? = named, self.isZoneCritical || self.offset == nil {
            throw Refusal("has a time zone that this machine does not have")
        }
        switch (self.offset, named) {
        case (.utc?, _): return self.local
        case (.seconds(let offset)?, let named):
            let moment = self.local - offset
            if let own = named?.offset(at: moment), own != offset {
                throw Refusal("has an offset that its time zone does not have then: leave out the wrong one")
            }
            return moment
        case (nil, .fixed(let offset)?): return self.local - offset
        case (nil, .rules(let rules)?): return rules.epochSeconds(ofLocal: self.local)
        case (nil, _):
            guard let zone else {
                throw Refusal("has no offset: name its zone, like \"Europe/Berlin\" or \"UTC\"")
            }
            guard let rules = TimeZoneFile.named(zone) else {
                throw Refusal("cannot be read: there is no time zone \"\(zone.prefix(60))\" on this machine")
            }
            return rules.epochSeconds(ofLocal: self.local)
        }
    }

    // MARK: forms

    /// `1768039500000+0100)/`: milliseconds since 1970, also with an offset, which is that of the writer only.
    private mutating func readMilliseconds() throws(Refusal) {
        let isNegative = self.cursor.take("-")
        guard let milliseconds = self.cursor.number(1...15) else { throw .unreadable }
        self.local = isNegative ? -((milliseconds + 999) / 1000) : milliseconds / 1000
        if self.cursor.peek != UInt8(ascii: ")") { _ = try self.readOffset() }
        guard self.cursor.take(")/") else { throw .unreadable }
        self.offset = .utc
    }

    /// `2026-01-10T10:05:00.5+01:00[Europe/Berlin]`, `20260110T100500Z`, `20260110100500`.
    private mutating func readNumericDate() throws(Refusal) {
        let isTogether = self.cursor.digits == 14
        let isExtended = self.cursor.digits == 4
        guard let year = self.cursor.number(4...4), !isExtended || self.cursor.take("-"),
            let month = self.cursor.number(2...2), !isExtended || self.cursor.take("-"),
            let day = self.cursor.number(2...2)
        else { throw .unreadable }
        if isTogether {
            try self.readTime(year, month, day)
        } else {
            let isTimed = self.cursor.take("T") || self.cursor.take("t")
            self.cursor.skipSpaces()
            if isTimed || self.cursor.digits > 0 {
                try self.readTime(year, month, day)
            } else {
                try self.set(year, month, day)
            }
        }
        try self.readZone()
        while self.cursor.take("[") { try self.readSuffix() }
    }

    private static let months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
    /// 1970-01-01 was a Thursday.
    private static let days = ["thu", "fri", "sat", "sun", "mon", "tue", "wed"]

    /// `Sat, 10 Jan 2026 10:05:00 +0100`, and `Sat Jan 10 2026 10:05:00 GMT+0100 (CET)` of JavaScript.
    private mutating func readWrittenDate() throws(Refusal) {
        var word = self.cursor.word()
        let weekday = Self.days.firstIndex(of: word)
        if weekday != nil {
            _ = self.cursor.take(",")
            self.cursor.skipSpaces()
            word = self.cursor.word()
        }
        let isMonthFirst = !word.isEmpty
        self.cursor.skipSpaces()
        let day = self.cursor.number(1...2)
        _ = self.cursor.take(isMonthFirst ? "," : "-")
        self.cursor.skipSpaces()
        if !isMonthFirst {
            word = self.cursor.word()
            _ = self.cursor.take("-")
            self.cursor.skipSpaces()
        }
        guard let month = Self.months.firstIndex(of: word), let day, let year = self.cursor.number(4...4) else {
            throw .unreadable
        }
        self.cursor.skipSpaces()
        if self.cursor.digits > 0 {
            try self.readTime(year, Int64(month) + 1, day)
        } else {
            try self.set(year, Int64(month) + 1, day)
        }
        let written = self.local >= 0 ? self.local / 86_400 : (self.local - 86_399) / 86_400
        if let weekday, Int64(weekday) != (written % 7 + 7) % 7 { throw Refusal("has another day of the week") }
        try self.readZone()
        self.cursor.skipSpaces()
        if self.cursor.take("("), !self.cursor.skip(past: ")") { throw .unreadable }
    }

    /// `10:05`, `10:05:00`, `1005`, `100500`, with a fraction of the seconds, which is cut off.
    private mutating func readTime(_ year: Int64, _ month: Int64, _ day: Int64) throws(Refusal) {
        let isExtended = self.cursor.digits == 2
        var second: Int64 = 0
        guard isExtended || self.cursor.digits == 4 || self.cursor.digits == 6,
            let hour = self.cursor.number(2...2), !isExtended || self.cursor.take(":"),
            let minute = self.cursor.number(2...2)
        else { throw .unreadable }
        if isExtended ? self.cursor.take(":") : self.cursor.digits > 0 {
            guard let seconds = self.cursor.number(2...2) else { throw .unreadable }
            second = seconds
            if self.cursor.take(".") || self.cursor.take(",") {
                guard self.cursor.number(1...100) != nil else { throw .unreadable }
            }
        }
        // The end of a day is the beginning of the next.
        let isEnd = hour == 24 && minute == 0 && second == 0
        try self.set(year, month, day, isEnd ? 0 : hour, minute, second)
        if isEnd { self.local += 86_400 }
    }

    private mutating func set(
        _ year: Int64, _ month: Int64, _ day: Int64, _ hour: Int64 = 0, _ minute: Int64 = 0, _ second: Int64 = 0
    ) throws(Refusal) {
        func digits(_ number: Int64, _ count: Int) -> String {
            let text = String(number)
            return String(repeating: "0", count: max(0, count - text.utf8.count)) + text
        }
        let date = "\(digits(year, 4))-\(digits(month, 2))-\(digits(day, 2))"
        let time = "\(digits(hour, 2)):\(digits(minute, 2)):\(digits(second, 2))"
        guard let seconds = RFC3339.parse("\(date)T\(time)Z") else {
            throw Refusal("is no moment of the calendar")
        }
        self.local = seconds
    }

    /// `Z`, `UTC`, `GMT`, `+01:00`, `+0100`, `+01`, `GMT+0100`, or nothing.
    private mutating func readZone() throws(Refusal) {
        self.cursor.skipSpaces()
        switch self.cursor.word() {
        case "z": self.offset = .utc
        case "utc", "gmt", "ut":
            self.offset = .utc
            if self.cursor.isSigned { self.offset = try self.readOffset() }
        case "": if self.cursor.isSigned { self.offset = try self.readOffset() }
        default:
            throw Refusal(
                "has letters after its time that are not certain: write it with 24 hours and an offset, like "
                    + "2026-01-10T22:05:00+01:00")
        }
    }

    private mutating func readOffset() throws(Refusal) -> Offset {
        let isNegative = self.cursor.take("-")
        guard isNegative || self.cursor.take("+"), let hours = self.cursor.number(2...2), hours < 24 else {
            throw .unreadable
        }
        var minutes: Int64 = 0
        if self.cursor.take(":") || self.cursor.digits > 0 {
            guard let number = self.cursor.number(2...2), number < 60 else { throw .unreadable }
            minutes = number
        }
        let seconds = hours * 3600 + minutes * 60
        return isNegative ? (seconds == 0 ? .utc : .seconds(-seconds)) : .seconds(seconds)
    }

    /// `[Europe/Berlin]`, `[u-ca=gregory]`; one with `!` must be understood. Source: RFC 9557 §3, §4
    private mutating func readSuffix() throws(Refusal) {
        let isCritical = self.cursor.take("!")
        guard let content = self.cursor.text(before: "]") else { throw .unreadable }
        guard let mark = content.firstIndex(of: "=") else {
            guard self.zone == nil, !content.isEmpty else { throw .unreadable }
            (self.zone, self.isZoneCritical) = (content, isCritical)
            return
        }
        // The date is that of ISO 8601 in any case: the calendar is the one to show it in.
        let isKnown = content[..<mark] == "u-ca" && ["gregory", "iso8601"].contains(content[mark...].dropFirst())
        if isCritical, !isKnown { throw Refusal("has a critical suffix that is not known: [!\(content.prefix(40))]") }
    }

    // MARK: zones in brackets

    private enum Zone {
        case fixed(Int64)
        case rules(TimeZoneFile)
        case unknown

        func offset(at moment: Int64) -> Int64? {
            switch self {
            case .fixed(let offset): offset
            case .rules(let rules): rules.offset(at: moment)
            case .unknown: nil
            }
        }
    }

    private static func rules(of name: Substring) throws(Refusal) -> Zone {
        guard name.first == "+" || name.first == "-" else {
            return TimeZoneFile.named(String(name)).map { .rules($0) } ?? .unknown
        }
        var offset = TextCursor(String(name))
        let isNegative = offset.take("-")
        guard isNegative || offset.take("+"), let hours = offset.number(2...2), hours < 24, offset.take(":"),
            let minutes = offset.number(2...2), minutes < 60, offset.isAtEnd
        else { throw .unreadable }
        return .fixed((isNegative ? -1 : 1) * (hours * 3600 + minutes * 60))
    }
}

/// A place in a text, from which parts of it are taken.
private struct TextCursor {
    private var rest: Substring

    init(_ text: String) { self.rest = text[...] }

    var isAtEnd: Bool { self.rest.isEmpty }
    var peek: UInt8? { self.rest.utf8.first }
    var isSigned: Bool { self.peek == UInt8(ascii: "+") || self.peek == UInt8(ascii: "-") }

    /// The number of digits that come next.
    var digits: Int { self.rest.utf8.prefix { $0 &- UInt8(ascii: "0") < 10 }.count }

    /// True for `10/01/2026`, `10.1.26` and `10-01-2026`.
    var isDayOrMonthFirst: Bool {
        let after = self.rest.utf8.dropFirst(self.digits).prefix(2)
        guard (1...2).contains(self.digits), after.count == 2, let mark = after.first, let next = after.last else {
            return false
        }
        return "/.-".utf8.contains(mark) && next &- UInt8(ascii: "0") < 10
    }

    mutating func skipSpaces() { self.rest = self.rest.drop { $0 == " " || $0 == "\t" || $0 == "\n" } }

    mutating func take(_ text: String) -> Bool {
        guard self.rest.hasPrefix(text) else { return false }
        self.rest = self.rest.dropFirst(text.count)
        return true
    }

    /// Takes digits; nil if there are fewer. More than 18 have no value but zero.
    mutating func number(_ count: ClosedRange<Int>) -> Int64? {
        let taken = min(self.digits, count.upperBound)
        guard taken >= count.lowerBound else { return nil }
        let text = self.rest.utf8.prefix(taken)
        self.rest = self.rest.dropFirst(taken)
        return Int64(Substring(text)) ?? 0
    }

    /// Takes ASCII letters, and returns them in lower case.
    mutating func word() -> String {
        let letters = self.rest.prefix { $0.isASCII && $0.isLetter }
        self.rest = self.rest.dropFirst(letters.count)
        return letters.lowercased()
    }

    /// Takes what is before a mark, and the mark; nil if there is none.
    mutating func text(before mark: Character) -> Substring? {
        guard let end = self.rest.firstIndex(of: mark) else { return nil }
        defer { self.rest = self.rest[self.rest.index(after: end)...] }
        return self.rest[..<end]
    }

    /// Skips to the character after a mark.
    mutating func skip(past mark: Character) -> Bool { self.text(before: mark) != nil }
}
