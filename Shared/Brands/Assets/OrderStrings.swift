import Model

/// The translations of one language: the content of `xx.lproj/order.strings`.
///
/// Encoded again for packages, so that white space, comments, order and encoding of the source change nothing: ASCII if
/// that is sufficient, else UTF-16 with a byte order mark, which Apple's reference requires.
/// Source: Wallet Orders §2.6
struct OrderStrings {
    /// One translation, in UTF-16 code units, which are compared literally: `é` as one unit or as two makes two keys.
    struct Entry {
        let key: [UInt16]
        let value: [UInt16]
        /// The line of its key in the file, from 1.
        let line: Int
    }

    /// Sorted by key, each key once.
    let entries: [Entry]

    /// The largest file in bytes; a larger one cannot be the translation of an order.
    static let sizeLimit = 1_000_000

    /// - Parameter bytes: UTF-8, or UTF-16 with a byte order mark of either kind.
    /// - Throws: `OrderStringsFault` with the line.
    init(parsing bytes: [UInt8]) throws(OrderStringsFault) {
        guard bytes.count <= Self.sizeLimit else {
            throw OrderStringsFault(nil, "it has \(bytes.count) bytes, at most \(Self.sizeLimit) are allowed")
        }
        var parser = OrderStringsParser(try OrderStringsText.decode(bytes))
        self.entries = try parser.entries().sorted { $0.key.lexicographicallyPrecedes($1.key) }
    }

    /// All keys.
    var keys: Set<[UInt16]> { Set(self.entries.map(\.key)) }

    /// The file for packages: identical for identical translations.
    var encoded: [UInt8] {
        var units: [UInt16] = []
        for entry in self.entries {
            Self.append(quoted: entry.key, to: &units)
            units += " = ".utf16
            Self.append(quoted: entry.value, to: &units)
            units += ";\n".utf16
        }
        if units.allSatisfy({ $0 < 0x80 }) { return units.map { UInt8(truncatingIfNeeded: $0) } }
        // Little-endian, like the tools on a Mac.
        return ([0xFEFF] + units).flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] }
    }

    private static func append(quoted text: [UInt16], to units: inout [UInt16]) {
        units.append(contentsOf: "\"".utf16)
        for unit in text {
            switch unit {
            case 0x22: units += "\\\"".utf16
            case 0x5C: units += "\\\\".utf16
            case 0x0A: units += "\\n".utf16
            case 0x0D: units += "\\r".utf16
            case 0x09: units += "\\t".utf16
            case 0..<0x20, 0x7F:
                let digits = String(unit, radix: 16, uppercase: true)
                units += "\\U\(String(repeating: "0", count: 4 - digits.count))\(digits)".utf16
            default: units.append(unit)
            }
        }
        units.append(contentsOf: "\"".utf16)
    }
}

/// The reason why a file of translations cannot be parsed.
struct OrderStringsFault: Error, Hashable {
    /// From 1; nil if the error concerns the whole file.
    let line: Int?
    /// The error and the correction.
    let message: String

    init(_ line: Int?, _ message: String) {
        self.line = line
        self.message = message
    }
}

/// Detects the encoding of a file of translations.
///
/// Source: Wallet Orders §2.6; Unicode Standard §23.8 (byte order mark)
enum OrderStringsText {
    /// - Returns: UTF-16 code units without the mark. Surrogates may be unpaired; the parser checks them.
    static func decode(_ bytes: [UInt8]) throws(OrderStringsFault) -> [UInt16] {
        // First, because UTF-16 begins with the same two bytes.
        if bytes.starts(with: [0xFF, 0xFE, 0, 0] as [UInt8]) || bytes.starts(with: [0, 0, 0xFE, 0xFF] as [UInt8]) {
            throw OrderStringsFault(nil, "it is UTF-32; save it as UTF-8 or as UTF-16 with a byte order mark")
        }
        if bytes.starts(with: [0xFF, 0xFE] as [UInt8]) { return try self.units(bytes, highAt: 1) }
        if bytes.starts(with: [0xFE, 0xFF] as [UInt8]) { return try self.units(bytes, highAt: 0) }
        let hasMark = bytes.starts(with: [0xEF, 0xBB, 0xBF] as [UInt8])
        let text = hasMark ? Array(bytes.dropFirst(3)) : bytes
        if let zero = text.firstIndex(of: 0) {
            throw OrderStringsFault(
                self.line(of: zero, in: text), "there is a zero byte; UTF-16 needs a byte order mark, or use UTF-8")
        }
        guard let string = String(validating: text, as: UTF8.self) else {
            let lines = text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
            let broken = lines.firstIndex { String(validating: $0, as: UTF8.self) == nil }
            throw OrderStringsFault(
                broken.map { $0 + 1 }, "it is not UTF-8; save it as UTF-8 or as UTF-16 with a byte order mark")
        }
        return Array(string.utf16)
    }

    /// - Parameter high: the index of the high byte of a unit, 0 or 1.
    private static func units(_ bytes: [UInt8], highAt high: Int) throws(OrderStringsFault) -> [UInt16] {
        guard bytes.count.isMultiple(of: 2) else {
            throw OrderStringsFault(nil, "it is UTF-16 and ends in the middle of a character; save it again")
        }
        return stride(from: 2, to: bytes.count, by: 2).map {
            UInt16(bytes[$0 + high]) << 8 | UInt16(bytes[$0 + 1 - high])
        }
    }

    private static func line(of position: Int, in text: [UInt8]) -> Int {
        text[..<position].count { $0 == UInt8(ascii: "\n") } + 1
    }
}

/// Parses lines of `"KEY" = "Value";` with comments between them.
///
/// Stricter than Apple's parser, which also accepts unquoted words, missing values and strings over several lines: in
/// such files each of them is more often a forgotten quotation mark than intended.
/// Source: Wallet Orders §2.6; Apple, "Resource Programming Guide: String Resources"
struct OrderStringsParser {
    private let text: [UInt16]
    private var position = 0
    private var line = 1

    init(_ text: [UInt16]) { self.text = text }

    /// Returns all translations in the order of the file.
    mutating func entries() throws(OrderStringsFault) -> [OrderStrings.Entry] {
        var entries: [OrderStrings.Entry] = []
        var lines: [[UInt16]: Int] = [:]
        while true {
            try self.skipSpaceAndComments()
            guard self.position < self.text.count else { return entries }
            let start = self.line
            let key = try self.quoted("a key in quotation marks")
            let name = Self.shown(key)
            guard !key.isEmpty else { throw OrderStringsFault(start, "the key is empty; name what it translates") }
            try self.expect("=", "after the key \(name)")
            try self.skipSpaceAndComments()
            let value = try self.quoted("the value of \(name) in quotation marks")
            guard !value.isEmpty else {
                throw OrderStringsFault(start, "the value of \(name) is empty; Wallet would show nothing there")
            }
            try self.expect(";", "after the value of \(name)")
            if let first = lines.updateValue(start, forKey: key) {
                throw OrderStringsFault(start, "the key \(name) is already in line \(first); remove one")
            }
            entries.append(OrderStrings.Entry(key: key, value: value, line: start))
        }
    }

    /// Returns a key for messages, in quotation marks.
    static func shown(_ key: [UInt16]) -> String {
        let text = String(decoding: key.prefix(60), as: UTF16.self)
        return JSON.string(key.count > 60 ? "\(text)…" : text).text
    }

    private mutating func expect(_ sign: Character, _ place: String) throws(OrderStringsFault) {
        let end = self.line
        try self.skipSpaceAndComments()
        guard self.position < self.text.count, self.text[self.position] == sign.utf16.first else {
            throw OrderStringsFault(end, "a \(sign) is missing \(place)")
        }
        self.position += 1
    }

    private mutating func skipSpaceAndComments() throws(OrderStringsFault) {
        while self.position < self.text.count {
            switch self.text[self.position] {
            case 0x0A: self.line += 1
            case 0x0D:
                // CR LF is one line end.
                if self.peek(1) != 0x0A { self.line += 1 }
            // Space, tabs, form feed, a no-break space from a browser, a byte order mark from joined files.
            case 0x09, 0x0B, 0x0C, 0x20, 0xA0, 0xFEFF: break
            case 0x2F where self.peek(1) == 0x2F:
                while self.position < self.text.count, !Self.isLineEnd(self.text[self.position]) { self.position += 1 }
                continue
            case 0x2F where self.peek(1) == 0x2A:
                try self.skipComment()
                continue
            default: return
            }
            self.position += 1
        }
    }

    private mutating func skipComment() throws(OrderStringsFault) {
        let start = self.line
        self.position += 2
        while self.position < self.text.count {
            let unit = self.text[self.position]
            if unit == 0x2A, self.peek(1) == 0x2F {
                self.position += 2
                return
            }
            if unit == 0x0A || (unit == 0x0D && self.peek(1) != 0x0A) { self.line += 1 }
            self.position += 1
        }
        throw OrderStringsFault(start, "the comment that begins here has no end; close it with */")
    }

    private func peek(_ offset: Int) -> UInt16? {
        self.position + offset < self.text.count ? self.text[self.position + offset] : nil
    }

    private static func isLineEnd(_ unit: UInt16) -> Bool { unit == 0x0A || unit == 0x0D }

    private mutating func quoted(_ what: String) throws(OrderStringsFault) -> [UInt16] {
        guard self.peek(0) == 0x22 else {
            let found = self.peek(0).map { ", found \(Self.shown([$0]))" } ?? ", the file ends"
            throw OrderStringsFault(self.line, "\(what) is expected\(found)")
        }
        self.position += 1
        var units: [UInt16] = []
        while let unit = self.peek(0), !Self.isLineEnd(unit) {
            self.position += 1
            switch unit {
            case 0x22:
                guard String(validating: units, as: UTF16.self) != nil else {
                    throw OrderStringsFault(self.line, "half of a surrogate pair is alone; write both halves")
                }
                return units
            case 0x5C: units.append(try self.escaped())
            case 0..<0x09, 0x0B..<0x20, 0x7F:
                throw OrderStringsFault(
                    self.line, "a control character (code \(unit)) is in a text; write it as an escape or remove it"
                )
            default: units.append(unit)
            }
        }
        throw OrderStringsFault(
            self.line, "a text has no end on its line; close it with a quotation mark, or write \\n for a new line")
    }

    /// Returns the character for an escape, whose backslash has been read.
    ///
    /// Apple's parser knows `\U` only; `\u` is accepted as well, because people mean that by it.
    private mutating func escaped() throws(OrderStringsFault) -> UInt16 {
        guard let unit = self.peek(0) else {
            throw OrderStringsFault(self.line, "the file ends in the middle of an escape")
        }
        self.position += 1
        switch UnicodeScalar(unit) {
        case "\""?, "\\"?, "'"?: return unit
        case "n"?: return 0x0A
        case "r"?: return 0x0D
        case "t"?: return 0x09
        case "U"?, "u"?:
            var value: UInt16 = 0
            for _ in 0..<4 {
                guard let digit = self.peek(0).flatMap(Self.hexadecimalDigit) else {
                    throw OrderStringsFault(self.line, "\\U needs four hexadecimal digits, as in \\U00E9")
                }
                value = value << 4 | digit
                self.position += 1
            }
            guard value != 0 else { throw OrderStringsFault(self.line, "\\U0000 is not a character; remove it") }
            return value
        default:
            throw OrderStringsFault(
                self.line,
                "the escape \\\(String(decoding: [unit], as: UTF16.self)) is not valid: "
                    + "\\\" \\\\ \\' \\n \\r \\t and \\U with four digits are; write \\\\ for a backslash")
        }
    }

    private static func hexadecimalDigit(_ unit: UInt16) -> UInt16? {
        switch unit {
        case 0x30...0x39: unit - 0x30
        case 0x41...0x46: unit - 0x41 + 10
        case 0x61...0x66: unit - 0x61 + 10
        default: nil
        }
    }
}
