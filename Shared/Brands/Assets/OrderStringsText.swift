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
