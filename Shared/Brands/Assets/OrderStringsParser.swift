import Model

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
