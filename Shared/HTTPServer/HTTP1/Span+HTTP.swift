// The characters of HTTP's grammar and the few comparisons that parsing needs.

extension UInt8 {
    /// CR
    public static let carriageReturn = UInt8(ascii: "\r")
    /// LF
    public static let lineFeed = UInt8(ascii: "\n")
    /// SP
    public static let space = UInt8(ascii: " ")

    /// Space or tab, which may surround values. Source: RFC 9110 §5.6.3
    @inlinable public var isBlank: Bool { self == .space || self == 0x09 }

    /// An ASCII digit.
    @inlinable public var isDigit: Bool { self &- 0x30 < 10 }

    /// An ASCII letter.
    @inlinable public var isLetter: Bool { self.lowercasedASCII &- 0x61 < 26 }

    /// A character of a host with its port, including an address in brackets. User information is not accepted.
    var isHostCharacter: Bool { self.isLetter || self.isDigit || "-._:[]".utf8.contains(self) }

    /// A character of names and methods. Source: RFC 9110 §5.6.2
    var isTokenCharacter: Bool { tokenCharacters[Int(self)] }

    /// A character of a field's value: printable, blank, or beyond ASCII. Source: RFC 9110 §5.5
    var isFieldCharacter: Bool { self >= 0x20 ? self != 0x7F : self == 0x09 }
}

private let tokenCharacters: [Bool] = (0..<256).map { byte in
    guard byte > 0x20, byte < 0x7F else { return false }
    return !"\"(),/:;<=>?@[\\]{}".utf8.contains(UInt8(byte))
}

extension Span where Element == UInt8 {
    func isEqual(_ text: StaticString) -> Bool {
        guard self.count == text.utf8CodeUnitCount else { return false }
        for index in self.indices where unsafe self[index] != text.utf8Start[index] { return false }
        return true
    }

    /// True if it has the same text in any case.
    ///
    /// - Parameter text: lower case.
    @inlinable public func isEqualIgnoringCase(_ text: StaticString) -> Bool {
        guard self.count == text.utf8CodeUnitCount else { return false }
        for index in self.indices where unsafe self[index].lowercasedASCII != text.utf8Start[index] { return false }
        return true
    }

    /// True if a comma-separated list has an element, in any case. Source: RFC 9110 §5.6.1
    func hasElement(_ text: StaticString) -> Bool {
        var start = 0
        while start <= self.count {
            var end = start
            while end < self.count, self[end] != UInt8(ascii: ",") { end += 1 }
            var (first, last) = (start, end)
            while first < last, self[first].isBlank { first += 1 }
            while last > first, self[last - 1].isBlank { last -= 1 }
            if self.extracting(first..<last).isEqualIgnoringCase(text) { return true }
            start = end + 1
        }
        return false
    }

    /// The value of decimal digits, nil if there is anything else; `Int.max` for all larger values.
    var decimal: Int? {
        guard !self.isEmpty else { return nil }
        var number = 0
        for index in self.indices {
            guard self[index].isDigit else { return nil }
            let (tens, isTooLarge) = number.multipliedReportingOverflow(by: 10)
            number = isTooLarge || tens > .max - 9 ? .max : tens + Int(self[index] - 0x30)
        }
        return number
    }
}

extension UInt8 {
    /// The same byte, and a capital ASCII letter as a small one.
    @inlinable public var lowercasedASCII: UInt8 { self &- 0x41 < 26 ? self | 0x20 : self }

    /// The value of a hexadecimal digit.
    @inlinable public var hexadecimalValue: UInt8? {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): self - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): self - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): self - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
