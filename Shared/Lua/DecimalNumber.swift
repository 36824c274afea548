/// A decimal number as texts have it: `digits` times ten to the power of `exponent`.
struct DecimalNumber {
    /// The most digits, and the greatest exponent.
    static let limit = 40

    /// The characters between the digits of a text.
    struct Marks: Hashable {
        /// Before the decimal places.
        var decimal: Character = "."
        /// Between groups of three digits; India has groups of two before the last one.
        var grouping: Character?
    }

    private var isNegative = false
    /// The values of the first `count` digits, without zeros at the beginning: none for zero.
    private var digits = InlineArray<40, UInt8>(repeating: 0)
    private var count = 0
    private var exponent = 0

    /// - Returns: nil for what is not a number of JSON but for its marks, or has too many digits. More zeros at its
    ///   beginning are no fault.
    init?(_ value: HostValue, _ marks: Marks = Marks()) {
        switch value {
        case .integer(let number):
            self.isNegative = number < 0
            self.append(number.magnitude)
        case .text(let text):
            guard text.utf8.count <= 4 * Self.limit else { return nil }
            if marks.grouping == nil {
                guard self.read(text.utf8.span, marks.decimal == "," ? UInt8(ascii: ",") : UInt8(ascii: ".")) else {
                    return nil
                }
            } else {
                guard let plain = Self.ungrouped(text, marks), self.read(plain.utf8.span, UInt8(ascii: ".")) else {
                    return nil
                }
            }
        case .decimal(let text): guard self.read(text.utf8.span, UInt8(ascii: ".")) else { return nil }
        case .null, .error: return nil
        }
    }

    private mutating func append(_ number: UInt64) {
        if number >= 10 { self.append(number / 10) }
        _ = self.append(digit: UInt8(number % 10))
    }

    /// - Returns: false if there are too many.
    private mutating func append(digit: UInt8) -> Bool {
        if digit == 0, self.count == 0 { return true }
        guard self.count < Self.limit else { return false }
        self.digits[self.count] = digit
        self.count += 1
        return true
    }

    /// Reads a whole text.
    private mutating func read(_ text: Span<UInt8>, _ mark: UInt8) -> Bool {
        self.isNegative = text.count > 0 && text[0] == UInt8(ascii: "-")
        var position = self.isNegative ? 1 : 0
        guard let whole = self.readDigits(text, &position), whole > 0 else { return false }
        if position < text.count, text[position] == mark {
            position += 1
            guard let places = self.readDigits(text, &position), places > 0 else { return false }
            self.exponent = -places
        }
        guard position < text.count else { return true }
        guard text[position] | 0x20 == UInt8(ascii: "e"), let power = Self.power(text, from: position + 1) else {
            return false
        }
        self.exponent += power
        return true
    }

    /// - Returns: the number of digits; nil for too many.
    private mutating func readDigits(_ text: Span<UInt8>, _ position: inout Int) -> Int? {
        let start = position
        while position < text.count, text[position] &- UInt8(ascii: "0") < 10 {
            guard self.append(digit: text[position] - UInt8(ascii: "0")) else { return nil }
            position += 1
        }
        return position - start
    }

    private static func power(_ text: Span<UInt8>, from start: Int) -> Int? {
        guard start < text.count else { return nil }
        let isSigned = text[start] == UInt8(ascii: "-") || text[start] == UInt8(ascii: "+")
        var power = 0
        var position = isSigned ? start + 1 : start
        guard position < text.count else { return nil }
        while position < text.count {
            let digit = text[position] &- UInt8(ascii: "0")
            power = power * 10 + Int(digit)
            guard digit < 10, power <= Self.limit else { return nil }
            position += 1
        }
        return text[start] == UInt8(ascii: "-") ? -power : power
    }

    /// Returns a text without the marks of groups, and with a point for decimals; nil if a mark is at another place.
    private static func ungrouped(_ text: String, _ marks: Marks) -> String? {
        guard let mark = marks.grouping else { return text }
        let sign = text.hasPrefix("-") ? "-" : ""
        let rest = text.dropFirst(sign.count)
        let mantissa = rest.prefix { $0 != "e" && $0 != "E" }
        let parts = mantissa.split(separator: marks.decimal, maxSplits: 1, omittingEmptySubsequences: false)
        let groups = parts[0].split(separator: mark, omittingEmptySubsequences: false)
        guard groups.allSatisfy({ $0.utf8.allSatisfy { $0 &- UInt8(ascii: "0") < 10 } }) else { return nil }
        if groups.count > 1 {
            guard let first = groups.first, let last = groups.last, (1...3).contains(first.utf8.count),
                last.utf8.count == 3, groups.dropFirst().allSatisfy({ (2...3).contains($0.utf8.count) })
            else { return nil }
        }
        return sign + groups.joined() + (parts.count > 1 ? ".\(parts[1])" : "") + rest[mantissa.endIndex...]
    }

    /// The decimal places that it is written with.
    var places: Int { max(0, -self.exponent) }

    /// The number without zeros at the end of its decimal places.
    var shortest: DecimalNumber {
        var number = self
        while number.exponent < 0, number.count == 0 || number.digits[number.count - 1] == 0 {
            number.count = max(0, number.count - 1)
            number.exponent += 1
        }
        return number
    }

    /// The number with its decimal places, without an exponent.
    var text: String { self.text(places: self.places, shift: 0) ?? "" }

    /// Returns the number times ten to the power of `shift`; nil if it has more decimal places.
    func text(places: Int, shift: Int) -> String? {
        var count = self.count
        var zeros = self.exponent + shift + places
        while zeros < 0, count > 0 {
            guard self.digits[count - 1] == 0 else { return nil }
            count -= 1
            zeros += 1
        }
        if count == 0 { zeros = 0 }
        let total = max(count + zeros, places + 1)
        var text: [UInt8] = []
        text.reserveCapacity(total + 2)
        if self.isNegative, count > 0 { text.append(UInt8(ascii: "-")) }
        for index in 0..<total {
            if index == total - places { text.append(UInt8(ascii: ".")) }
            let place = index - (total - count - zeros)
            text.append(UInt8(ascii: "0") + (place >= 0 && place < count ? self.digits[place] : 0))
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Returns -1, 0 or 1 as this number is less than, equal to or greater than another one.
    func order(to other: DecimalNumber) -> Int64 {
        let places = max(self.places, other.places)
        func digits(_ number: DecimalNumber) -> (isNegative: Bool, digits: String) {
            let text = number.text(places: places, shift: 0) ?? ""
            return text.hasPrefix("-") ? (true, String(text.dropFirst())) : (false, text)
        }
        let (left, right) = (digits(self), digits(other))
        if left == right { return 0 }
        if left.isNegative != right.isNegative { return left.isNegative ? -1 : 1 }
        let isLess = (left.digits.utf8.count, left.digits) < (right.digits.utf8.count, right.digits)
        return isLess != left.isNegative ? -1 : 1
    }
}

extension DecimalNumber {
    /// Returns a number with its own text: an integer where it is one, else a decimal.
    ///
    /// - Parameter form: nil, or `shortest` for one without zeros at the end of its decimal places.
    static func value(of value: HostValue, marks: HostValue, form: HostValue) -> HostValue {
        guard form == .null || form == .text("shortest") else {
            return .error("number: the second argument must be \"shortest\", or a table of marks")
        }
        guard let marks = Marks(marks) else { return .error("number: \(Marks.rule)") }
        guard let number = DecimalNumber(value, marks) else { return .error("number: \(Self.refusal(value, marks))") }
        let text = (form == .null ? number : number.shortest).text
        return Int64(text).map { .integer($0) } ?? .decimal(text)
    }

    /// Returns a number as an integer: that of `2` and `2.00`.
    static func integer(_ value: HostValue) -> HostValue {
        guard let text = DecimalNumber(value)?.text(places: 0, shift: 0), let integer = Int64(text) else {
            return .error("integer: \(value.shown) is not a whole number of 64 bits")
        }
        return .integer(integer)
    }

    static func compare(_ left: HostValue, _ right: HostValue) -> HostValue {
        guard let first = DecimalNumber(left), let second = DecimalNumber(right) else {
            return .error("attempt to compare \(left.shown) with \(right.shown): both must be numbers")
        }
        return .integer(first.order(to: second))
    }

    /// Returns a sentence about a value that is not a number, with what to write.
    static func refusal(_ value: HostValue, _ marks: Marks) -> String {
        let sentence = "\(value.shown) is not a decimal number of at most \(Self.limit) digits"
        if marks != Marks() { return sentence + " with these marks" }
        guard let text = value.text, text.contains(where: \.isNumber), !text.contains(where: \.isLetter) else {
            return sentence
        }
        return sentence + #"; name its marks, as {decimal = ","} or {decimal = ",", grouping = "."}"#
    }
}

extension DecimalNumber.Marks {
    static let rule = "decimal must be \".\" or \",\", and grouping another mark that is no digit"

    /// - Parameter value: null, or the mark of decimals and then that of groups, if there is one.
    init?(_ value: HostValue) {
        guard value != .null else { return }
        guard let text = value.text, (1...2).contains(text.count), let first = text.first, first == "." || first == ","
        else { return nil }
        self.decimal = first
        guard text.count == 2, let last = text.last else { return }
        guard last != first, !last.isNumber, last != "-", !last.isLetter else { return nil }
        self.grouping = last
    }
}
