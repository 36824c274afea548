/// The translations of one language: what stands in `xx.lproj/order.strings`.
///
/// Written anew for packages, so that white space, comments, order and encoding of the source change nothing: ASCII if
/// that is enough, else UTF-16 with a byte order mark, which is what Apple's reference asks for.
/// Source: Wallet Orders §2.6
struct OrderStrings {
    /// One translation, in UTF-16 code units, which are compared as they are: `é` in one unit or in two are two keys.
    struct Entry {
        let key: [UInt16]
        let value: [UInt16]
        /// Where its key stands in the file, from 1.
        let line: Int
    }

    /// Sorted by key, each key once.
    let entries: [Entry]

    /// A larger file is no translation of an order.
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

    /// The file for packages: the same for the same translations.
    var encoded: [UInt8] {
        var units: [UInt16] = []
        for entry in self.entries {
            Self.append(quoted: entry.key, to: &units)
            units += " = ".utf16
            Self.append(quoted: entry.value, to: &units)
            units += ";\n".utf16
        }
        if units.allSatisfy({ $0 < 0x80 }) { return units.map { UInt8(truncatingIfNeeded: $0) } }
        // Little-endian, as the tools on a Mac write it.
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

/// Why a file of translations cannot be read.
struct OrderStringsFault: Error, Hashable {
    /// From 1; nil when it is about the whole file.
    let line: Int?
    /// What is wrong and what to do.
    let message: String

    init(_ line: Int?, _ message: String) {
        self.line = line
        self.message = message
    }
}
