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
