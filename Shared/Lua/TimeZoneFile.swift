import FoundationEssentials
import Model
import Synchronization

/// The offsets of a time zone, from the system's database (Debian: `tzdata`).
///
/// Source: RFC 8536 (TZif); POSIX.1-2017, "Environment Variables", `TZ`, for moments after the last transition
public struct TimeZoneFile: Sendable {
    private static let folder = "/usr/share/zoneinfo"
    /// The zones that were used, by name; null for those that do not exist. Bounded by `cacheLimit`.
    private static let cache = Mutex<[String: TimeZoneFile?]>([:])
    private static let cacheLimit = 256
    private static let sizeLimit = 1 << 16

    /// Reads a zone's file: that of the system, unless another way is set.
    private static let reader = Mutex<@Sendable (String) -> [UInt8]?>(content(of:))

    private var transitions: [(at: Int64, offset: Int64)] = []
    private var first: Int64 = 0
    private var rule: Rule?

    /// - Returns: nil if there is no such zone.
    static func named(_ name: String) -> TimeZoneFile? {
        if name == "UTC" || name == "GMT" { return TimeZoneFile() }
        return self.cache.withLock { cache in
            if let known = cache[name] { return known }
            let zone = self.read(name)
            if cache.count < self.cacheLimit { cache.updateValue(zone, forKey: name) }
            return zone
        }
    }

    /// Sets the way in which files of zones are read in a process that may open none.
    public static func read(by reader: @escaping @Sendable (String) -> [UInt8]?) {
        self.reader.withLock { $0 = reader }
    }

    private static func read(_ name: String) -> TimeZoneFile? {
        self.reader.withLock { $0 }(name).flatMap { TimeZoneFile($0) }
    }

    /// Returns the file of a zone; nil if there is none, or the name is that of no zone.
    public static func content(of name: String) -> [UInt8]? {
        let isName = name.utf8.allSatisfy { byte in
            (byte | 0x20) &- UInt8(ascii: "a") < 26 || byte &- UInt8(ascii: "0") < 10 || "_+-/".utf8.contains(byte)
        }
        guard isName, name.utf8.count <= 64, name.utf8.first != UInt8(ascii: "/"),
            let data = try? Data(contentsOf: URL(filePath: "\(self.folder)/\(name)")),  // tidy: of the system
            data.count <= self.sizeLimit
        else { return nil }
        return Array(data)
    }

    private init() {}

    /// - Returns: nil if the bytes are not a file of version 2 or later.
    init?(_ bytes: [UInt8]) {
        func number(_ position: Int, _ count: Int) -> Int64 {
            var value: Int64 = bytes[position] >= 0x80 ? -1 : 0
            for index in position..<position + count { value = value << 8 | Int64(bytes[index]) }
            return value
        }
        func counts(_ start: Int) -> [Int]? {
            guard start >= 0, start + 44 <= bytes.count, bytes[start..<start + 4].elementsEqual("TZif".utf8) else {
                return nil
            }
            let counts = (0..<6).map { Int(number(start + 20 + 4 * $0, 4)) }
            return counts.allSatisfy({ (0...100_000).contains($0) }) ? counts : nil
        }
        // The first block has times of 32 bits, the second one those of 64.
        guard let short = counts(0), bytes[4] >= UInt8(ascii: "2") else { return nil }
        let second = 44 + short[3] * 5 + short[4] * 6 + short[5] + short[2] * 8 + short[1] + short[0]
        guard let long = counts(second) else { return nil }
        let (times, types) = (long[3], long[4])
        let start = second + 44
        let end = start + times * 9 + types * 6 + long[5] + long[2] * 12 + long[1] + long[0]
        guard types > 0, end <= bytes.count else { return nil }
        func offset(_ type: Int) -> Int64 { number(start + times * 9 + type * 6, 4) }
        self.first = offset(0)
        for index in 0..<times {
            let type = Int(bytes[start + times * 8 + index])
            guard type < types else { return nil }
            self.transitions.append((number(start + index * 8, 8), offset(type)))
        }
        let footer = bytes[end...].split(separator: 0x0A).first.map { String(decoding: $0, as: UTF8.self) }
        self.rule = footer.flatMap { Rule($0) }
    }

    /// Returns the moment of a local time, which is given as if it were UTC.
    ///
    /// A time that occurs twice is the first of both; one that is skipped is as long after the change as its distance
    /// from it.
    func epochSeconds(ofLocal local: Int64) -> Int64 {
        let before = self.offset(at: local - 86_400)
        let after = self.offset(at: local + 86_400)
        if self.offset(at: local - before) != before, self.offset(at: local - after) == after { return local - after }
        return local - before
    }

    /// Returns the seconds east of Greenwich.
    func offset(at moment: Int64) -> Int64 {
        guard let last = self.transitions.last else { return self.rule?.offset(at: moment) ?? self.first }
        if moment >= last.at { return self.rule?.offset(at: moment) ?? last.offset }
        var low = 0
        var high = self.transitions.count
        while low < high {
            let middle = (low + high) / 2
            if self.transitions[middle].at <= moment { low = middle + 1 } else { high = middle }
        }
        return low == 0 ? self.first : self.transitions[low - 1].offset
    }

    /// The rule for moments after the last transition: `CET-1CEST,M3.5.0,M10.5.0/3`.
    private struct Rule {
        private let standard: Int64
        private var summer: Int64?
        private var begin: Change?
        private var end: Change?

        /// The n-th weekday of a month, and the time on it in seconds.
        private struct Change {
            let month: Int
            let week: Int
            let weekday: Int
            let time: Int64

            /// - Parameter text: `M3.5.0/2`
            init?(_ text: Substring) {
                let parts = text.split(separator: "/")
                guard text.first == "M", let date = parts.first else { return nil }
                let numbers = date.dropFirst().split(separator: ".").compactMap { Int($0) }
                guard numbers.count == 3, (1...12).contains(numbers[0]), (1...5).contains(numbers[1]),
                    (0...6).contains(numbers[2])
                else { return nil }
                (self.month, self.week, self.weekday) = (numbers[0], numbers[1], numbers[2])
                guard parts.count > 1 else {
                    self.time = 7200
                    return
                }
                guard let time = Rule.seconds(parts[1]) else { return nil }
                self.time = time
            }

            /// Seconds since 1970 of local time, as if it were UTC.
            func local(inYear year: Int) -> Int64? {
                func first(_ year: Int, _ month: Int) -> Int64? {
                    let digits = String(year)
                    let text = String(repeating: "0", count: max(0, 4 - digits.count)) + digits
                    return RFC3339.parse("\(text)-\(month < 10 ? "0" : "")\(month)-01T00:00:00Z").map { $0 / 86_400 }
                }
                guard let day = first(year, self.month),
                    let next = self.month == 12 ? first(year + 1, 1) : first(year, self.month + 1)
                else { return nil }
                // 1970-01-01 was a Thursday.
                let weekday = ((day + 4) % 7 + 7) % 7
                var found = day + (Int64(self.weekday) - weekday + 7) % 7 + 7 * Int64(self.week - 1)
                while found >= next { found -= 7 }
                return found * 86_400 + self.time
            }
        }

        init?(_ text: String) {
            let parts = text.split(separator: ",")
            guard var rest = parts.first, Self.name(&rest), let offset = Self.offset(&rest) else { return nil }
            self.standard = -offset
            if rest.isEmpty { return }
            guard Self.name(&rest), parts.count == 3, let begin = Change(parts[1]), let end = Change(parts[2]) else {
                return nil
            }
            self.summer = Self.offset(&rest).map { -$0 } ?? self.standard + 3600
            self.begin = begin
            self.end = end
        }

        func offset(at moment: Int64) -> Int64 {
            guard let summer = self.summer, let year = Int(RFC3339.format(epochSeconds: moment).prefix(4)),
                let begin = self.begin?.local(inYear: year), let end = self.end?.local(inYear: year)
            else { return self.standard }
            let (from, to) = (begin - self.standard, end - summer)
            let isSummer = from < to ? moment >= from && moment < to : moment >= from || moment < to
            return isSummer ? summer : self.standard
        }

        /// Removes the name of a zone: letters, or anything in angle brackets.
        private static func name(_ text: inout Substring) -> Bool {
            if text.first == "<" {
                guard let end = text.firstIndex(of: ">") else { return false }
                text = text[text.index(after: end)...]
                return true
            }
            let rest = text.drop { $0.isLetter }
            defer { text = rest }
            return rest.startIndex > text.startIndex
        }

        /// Removes an offset; nil if there is none.
        private static func offset(_ text: inout Substring) -> Int64? {
            let part = text.prefix { $0.isNumber || $0 == ":" || $0 == "-" || $0 == "+" }
            guard !part.isEmpty, let seconds = Self.seconds(part) else { return nil }
            text = text[part.endIndex...]
            return seconds
        }

        /// - Parameter text: `[+-]hh[:mm[:ss]]`
        static func seconds(_ text: Substring) -> Int64? {
            let isNegative = text.first == "-"
            let parts = text.drop { $0 == "-" || $0 == "+" }.split(separator: ":").map { Int64($0) }
            guard (1...3).contains(parts.count), parts.allSatisfy({ $0.map { (0...167).contains($0) } ?? false }) else {
                return nil
            }
            var seconds: Int64 = 0
            for (part, unit) in zip(parts, [3600, 60, 1] as [Int64]) { seconds += (part ?? 0) * unit }
            return isNegative ? -seconds : seconds
        }
    }
}
