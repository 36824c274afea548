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
    private var digits: [UInt8] = []
    private var exponent = 0

    /// - Returns: nil for what is not a number of JSON but for its marks, or has too many digits. More zeros at its
    ///   beginning are no fault.
    init?(_ value: HostValue, _ marks: Marks = Marks()) {
        let text: String
        switch value {
        case .integer(let number): text = String(number)
        case .text(let given):
            guard given.utf8.count <= 4 * Self.limit else { return nil }
            text = given
        case .decimal(let number): text = number
        case .null, .error: return nil
        }
        var rest = text[...]
        if rest.first == "-" {
            self.isNegative = true
            rest = rest.dropFirst()
        }
        let mantissa = rest.prefix { $0 != "e" && $0 != "E" }
        let parts = mantissa.split(separator: marks.decimal, maxSplits: 1, omittingEmptySubsequences: false)
        guard let whole = Self.ungrouped(parts[0], marks.grouping), Self.areDigits(whole),
            parts.count == 1 || Self.areDigits(parts[1])
        else { return nil }
        self.digits = Array(whole.utf8)
        if parts.count > 1 {
            self.digits += parts[1].utf8
            self.exponent = -parts[1].utf8.count
        }
        if mantissa.endIndex < rest.endIndex {
            guard let power = Int(rest[rest.index(after: mantissa.endIndex)...]), abs(power) <= Self.limit else {
                return nil
            }
            self.exponent += power
        }
        while self.digits.count > 1, self.digits.first == UInt8(ascii: "0") { self.digits.removeFirst() }
        guard self.digits.count <= Self.limit else { return nil }
    }

    private static func areDigits(_ text: Substring) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { $0 &- UInt8(ascii: "0") < 10 }
    }

    /// Returns the digits without the marks of their groups; nil if one is at another place.
    private static func ungrouped(_ text: Substring, _ mark: Character?) -> Substring? {
        guard let mark else { return text }
        let groups = text.split(separator: mark, omittingEmptySubsequences: false)
        if groups.count == 1 { return text }
        guard let first = groups.first, let last = groups.last, (1...3).contains(first.utf8.count),
            last.utf8.count == 3, groups.dropFirst().allSatisfy({ (2...3).contains($0.utf8.count) })
        else { return nil }
        return groups.joined()[...]
    }

    /// The decimal places that it is written with.
    var places: Int { max(0, -self.exponent) }

    /// The number without zeros at the end of its decimal places.
    var shortest: DecimalNumber {
        var number = self
        while number.exponent < 0, number.digits.last == UInt8(ascii: "0") {
            number.digits.removeLast()
            number.exponent += 1
        }
        if number.digits.isEmpty { number.digits = [UInt8(ascii: "0")] }
        return number
    }

    /// The number with its decimal places, without an exponent.
    var text: String { self.text(places: self.places, shift: 0) ?? "" }

    /// Returns the number times ten to the power of `shift`; nil if it has more decimal places.
    func text(places: Int, shift: Int) -> String? {
        var digits = self.digits
        var exponent = self.exponent + shift
        let zero = UInt8(ascii: "0")
        while exponent < -places {
            guard digits.popLast() ?? zero == zero else { return nil }
            exponent += 1
        }
        while exponent > -places {
            digits.append(zero)
            exponent -= 1
        }
        if digits.count <= places { digits = Array(repeating: zero, count: places + 1 - digits.count) + digits }
        while digits.count > places + 1, digits.first == zero { digits.removeFirst() }
        let isZero = digits.allSatisfy { $0 == zero }
        var text = self.isNegative && !isZero ? "-" : ""
        text += String(decoding: digits.dropLast(places), as: UTF8.self)
        if places > 0 { text += ".\(String(decoding: digits.suffix(places), as: UTF8.self))" }
        return text
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
