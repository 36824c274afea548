/// Arithmetic modulo an odd number of 256 bits, in Montgomery form.
///
/// Source: Koç, Acar, Kaliski, "Analyzing and comparing Montgomery multiplication algorithms" (CIOS)
struct APNSSimulatorModulus: Hashable {
    /// Four words, least significant first.
    typealias Number = SIMD4<UInt64>

    private let modulus: Number
    /// -1 / modulus mod 2^64.
    private let factor: UInt64
    /// 2^256, which is 1 in Montgomery form.
    let one: Number
    /// 2^512, to enter the form.
    private let squared: Number

    /// - Parameter modulus: odd and above 2^255.
    init(_ modulus: Number) {
        self.modulus = modulus
        // Newton: each step doubles the number of right bits, 1 has one.
        var inverse: UInt64 = 1
        for _ in 0..<6 { inverse = inverse &* (2 &- modulus[0] &* inverse) }
        self.factor = 0 &- inverse
        // 2^256 - modulus < modulus, as it is above 2^255.
        let one = Self.difference(.zero, modulus).value
        self.one = one
        var squared = one
        for _ in 0..<256 { squared = Self.sum(squared, squared, modulus) }
        self.squared = squared
    }

    /// Reads 32 bytes, most significant first.
    static func number(_ bytes: ArraySlice<UInt8>) -> Number {
        var number = Number.zero
        for (index, byte) in bytes.prefix(32).enumerated() {
            let word = 3 - index / 8
            number[word] = number[word] << 8 | UInt64(byte)
        }
        return number
    }

    func contains(_ number: Number) -> Bool { Self.difference(number, self.modulus).isNegative }
    /// Of a number below twice the modulus, as any of 256 bits is.
    func reduced(_ number: Number) -> Number {
        let difference = Self.difference(number, self.modulus)
        return difference.isNegative ? number : difference.value
    }

    func entering(_ number: Number) -> Number { self.multiply(number, self.squared) }
    func leaving(_ number: Number) -> Number { self.multiply(number, [1, 0, 0, 0]) }
    func add(_ a: Number, _ b: Number) -> Number { Self.sum(a, b, self.modulus) }
    func square(_ a: Number) -> Number { self.multiply(a, a) }

    func subtract(_ a: Number, _ b: Number) -> Number {
        let difference = Self.difference(a, b)
        // Below zero the wrapped value plus the modulus wraps back.
        return difference.isNegative ? Self.wrappingSum(difference.value, self.modulus).value : difference.value
    }

    /// Fermat: a^(modulus - 2), so of a prime modulus only.
    func inverse(_ a: Number) -> Number {
        let exponent = Self.difference(self.modulus, [2, 0, 0, 0]).value
        var result = self.one
        for bit in (0..<256).reversed() {
            result = self.square(result)
            if exponent[bit / 64] >> UInt64(bit % 64) & 1 == 1 { result = self.multiply(result, a) }
        }
        return result
    }

    func multiply(_ a: Number, _ b: Number) -> Number {
        var t = SIMD8<UInt64>.zero
        for i in 0..<4 {
            var carry: UInt64 = 0
            for j in 0..<4 { (t[j], carry) = Self.accumulate(t[j], a[j], b[i], carry) }
            let top = t[4].addingReportingOverflow(carry)
            t[4] = top.partialValue
            t[5] = top.overflow ? 1 : 0
            let m = t[0] &* self.factor
            carry = Self.accumulate(t[0], m, self.modulus[0], 0).high
            for j in 1..<4 { (t[j - 1], carry) = Self.accumulate(t[j], m, self.modulus[j], carry) }
            let next = t[4].addingReportingOverflow(carry)
            t[3] = next.partialValue
            t[4] = t[5] &+ (next.overflow ? 1 : 0)
        }
        let low: Number = [t[0], t[1], t[2], t[3]]
        let reduced = Self.difference(low, self.modulus)
        return t[4] == 0 && reduced.isNegative ? low : reduced.value
    }

    /// value + a * b + carry, which fits two words.
    private static func accumulate(
        _ value: UInt64, _ a: UInt64, _ b: UInt64, _ carry: UInt64
    ) -> (low: UInt64, high: UInt64) {
        let product = a.multipliedFullWidth(by: b)
        let first = product.low.addingReportingOverflow(value)
        let second = first.partialValue.addingReportingOverflow(carry)
        return (second.partialValue, product.high &+ (first.overflow ? 1 : 0) &+ (second.overflow ? 1 : 0))
    }

    private static func sum(_ a: Number, _ b: Number, _ modulus: Number) -> Number {
        let sum = Self.wrappingSum(a, b)
        let reduced = Self.difference(sum.value, modulus)
        return !sum.overflows && reduced.isNegative ? sum.value : reduced.value
    }

    private static func wrappingSum(_ a: Number, _ b: Number) -> (value: Number, overflows: Bool) {
        var result = Number.zero
        var carry = false
        for index in 0..<4 {
            let first = a[index].addingReportingOverflow(b[index])
            let second = first.partialValue.addingReportingOverflow(carry ? 1 : 0)
            result[index] = second.partialValue
            carry = first.overflow || second.overflow
        }
        return (result, carry)
    }

    private static func difference(_ a: Number, _ b: Number) -> (value: Number, isNegative: Bool) {
        var result = Number.zero
        var borrow = false
        for index in 0..<4 {
            let first = a[index].subtractingReportingOverflow(b[index])
            let second = first.partialValue.subtractingReportingOverflow(borrow ? 1 : 0)
            result[index] = second.partialValue
            borrow = first.overflow || second.overflow
        }
        return (result, borrow)
    }
}
