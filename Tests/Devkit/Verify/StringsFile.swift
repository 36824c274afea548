/// An `order.strings`: lines `"KEY" = "Value";` with comments.
///
/// Source: Wallet Orders §2.6
struct StringsFile: Sendable {
    /// The keys in file order, including repetitions.
    let keys: [String]
    /// True if the file has characters outside ASCII but is not UTF-16 with a byte order mark.
    let isWronglyEncoded: Bool

    /// The reason why the file cannot be parsed, with the line.
    struct Fault: Error, Hashable {
        let line: Int
        let message: String
        /// True if the bytes cannot be decoded, as opposed to text with a syntax error.
        var isEncoding = false
    }

    init(_ bytes: [UInt8]) throws(Fault) {
        let text = try Self.text(bytes)
        self.isWronglyEncoded = !text.isUTF16 && !text.scalars.allSatisfy(\.isASCII)
        var reader = Reader(scalars: text.scalars)
        var keys: [String] = []
        while let key = try reader.pair() { keys.append(key) }
        self.keys = keys
    }

    private static func text(_ bytes: [UInt8]) throws(Fault) -> (scalars: [Unicode.Scalar], isUTF16: Bool) {
        let isBig = bytes.starts(with: [0xFE, 0xFF])
        if isBig || bytes.starts(with: [0xFF, 0xFE]) {
            guard bytes.count % 2 == 0 else {
                throw Fault(line: 1, message: "It is UTF-16 with half a character at its end.", isEncoding: true)
            }
            let units = stride(from: 2, to: bytes.count, by: 2).map { index in
                UInt16(bytes[index + (isBig ? 0 : 1)]) << 8 | UInt16(bytes[index + (isBig ? 1 : 0)])
            }
            guard let text = String(validating: units, as: UTF16.self) else {
                throw Fault(line: 1, message: "It is no valid UTF-16.", isEncoding: true)
            }
            return (Array(text.unicodeScalars), true)
        }
        guard !bytes.contains(0) else {
            throw Fault(line: 1, message: "It looks like UTF-16 without a byte order mark; add one.", isEncoding: true)
        }
        let body = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes[...]
        guard let text = String(validating: body, as: UTF8.self) else {
            throw Fault(line: 1, message: "It is neither UTF-16 with a byte order mark nor ASCII.", isEncoding: true)
        }
        return (Array(text.unicodeScalars), false)
    }

    private struct Reader {
        let scalars: [Unicode.Scalar]
        var position = 0
        var line = 1

        init(scalars: [Unicode.Scalar]) { self.scalars = scalars }

        private var current: Unicode.Scalar? {
            self.position < self.scalars.count ? self.scalars[self.position] : nil
        }

        private func fault(_ message: String) -> Fault { Fault(line: self.line, message: message) }

        private mutating func advance() {
            if self.current == "\n" { self.line += 1 }
            self.position += 1
        }

        /// - Returns: the next pair's key, nil at the end.
        mutating func pair() throws(Fault) -> String? {
            try self.skipSpace()
            guard self.current != nil else { return nil }
            let key = try self.quotedText("a key in quotes")
            try self.sign("=")
            _ = try self.quotedText("a value in quotes")
            try self.sign(";")
            return key
        }

        private mutating func sign(_ sign: Unicode.Scalar) throws(Fault) {
            // A missing sign is reported at the end of the text before it.
            let line = self.line
            try self.skipSpace()
            guard self.current == sign else { throw Fault(line: line, message: "'\(sign)' is expected.") }
            self.advance()
            try self.skipSpace()
        }

        private mutating func skipSpace() throws(Fault) {
            while let scalar = self.current {
                if scalar.properties.isWhitespace {
                    self.advance()
                } else if self.starts(with: "//") {
                    while let scalar = self.current, scalar != "\n" { self.advance() }
                } else if self.starts(with: "/*") {
                    let start = self.line
                    self.position += 2
                    while self.current != nil, !self.starts(with: "*/") { self.advance() }
                    guard self.current != nil else { throw Fault(line: start, message: "The comment is not closed.") }
                    self.position += 2
                } else {
                    return
                }
            }
        }

        private func starts(with text: String) -> Bool {
            self.scalars[self.position...].starts(with: text.unicodeScalars)
        }

        private mutating func quotedText(_ expected: String) throws(Fault) -> String {
            guard self.current == "\"" else { throw self.fault("\(expected) is expected.") }
            let start = self.line
            self.advance()
            var text = String.UnicodeScalarView()
            while let scalar = self.current {
                self.advance()
                if scalar == "\"" { return String(text) }
                if scalar == "\\" {
                    guard let escaped = self.current else { break }
                    text.append(escaped == "n" ? "\n" : escaped)
                    self.advance()
                } else {
                    text.append(scalar)
                }
            }
            throw Fault(line: start, message: "The text that starts here is not closed.")
        }
    }
}
