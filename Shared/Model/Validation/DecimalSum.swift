/// The exact sum of decimal numbers of any length, written as `-?digits[.digits]`.
///
/// Each decimal place has its own column, which is carried over only when the sum is needed. A column cannot
/// overflow: a text of at most a megabyte has too few digits for that.
struct DecimalSum {
    /// The columns from the units upwards.
    private var whole: [Int] = []
    /// The columns from the tenths downwards.
    private var fraction: [Int] = []

    /// - Parameter text: already checked with `isDecimal`.
    mutating func add(_ text: String) { self.add(text, sign: 1) }

    /// Returns true if the sum is this number.
    func equals(_ text: String) -> Bool {
        var difference = self
        difference.add(text, sign: -1)
        return difference.digits() == nil
    }

    /// The sum in the shortest form that keeps the decimal places of the numbers added.
    var text: String {
        guard let digits = self.digits() else { return "0" }
        var text = digits.isNegative ? "-" : ""
        for digit in digits.whole.reversed().drop(while: { $0 == 0 }) { text += String(digit) }
        if text.isEmpty || text == "-" { text += "0" }
        if !digits.fraction.isEmpty { text += "." }
        for digit in digits.fraction { text += String(digit) }
        return text
    }

    private mutating func add(_ text: String, sign: Int) {
        let bytes = text.utf8.span
        var start = 0
        var sign = sign
        if bytes.count > 0, bytes[0] == UInt8(ascii: "-") {
            start = 1
            sign = -sign
        }
        var point = start
        while point < bytes.count, bytes[point] != UInt8(ascii: ".") { point += 1 }
        while self.whole.count < point - start { self.whole.append(0) }
        while self.fraction.count < bytes.count - point - 1 { self.fraction.append(0) }
        for index in start..<point { self.whole[point - 1 - index] += sign * Int(bytes[index] & 0xF) }
        for index in min(point + 1, bytes.count)..<bytes.count {
            self.fraction[index - point - 1] += sign * Int(bytes[index] & 0xF)
        }
    }

    /// - Returns: one digit for each place, nil for zero.
    private func digits() -> (isNegative: Bool, whole: [Int], fraction: [Int])? {
        for sign in [1, -1] {
            var whole = self.whole
            var fraction = self.fraction
            var carry = 0
            func carryOver(_ column: inout Int) {
                let value = column * sign + carry
                // Floor, so that a digit is never negative.
                carry = value >= 0 ? value / 10 : -((9 - value) / 10)
                column = value - carry * 10
            }
            for index in fraction.indices.reversed() { carryOver(&fraction[index]) }
            for index in whole.indices { carryOver(&whole[index]) }
            while carry > 0 {
                whole.append(carry % 10)
                carry /= 10
            }
            if carry < 0 { continue }
            let isZero = whole.allSatisfy { $0 == 0 } && fraction.allSatisfy { $0 == 0 }
            return isZero ? nil : (sign < 0, whole, fraction)
        }
        return nil
    }
}
