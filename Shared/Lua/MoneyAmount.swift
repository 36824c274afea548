/// Amounts of money, computed on their digits.
enum MoneyAmount {
    /// The decimal places of currencies that have not two. Source: ISO 4217, list one
    private static let places: [String: Int] = {
        var places: [String: Int] = ["CLF": 4, "UYW": 4]
        for code in ["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"] { places[code] = 3 }
        for code in [
            "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF",
            "XOF", "XPF",
        ] { places[code] = 0 }
        return places
    }()

    /// The most digits of an amount.
    private static let digitLimit = 40

    /// Returns an amount in the form of an order: `149.40`, with the decimal places of its currency.
    ///
    /// - Parameter unit: `major` for euros, `minor` for cents.
    static func text(of value: HostValue, currency: String?, unit: String?) -> HostValue {
        guard let currency, currency.utf8.count == 3, currency.utf8.allSatisfy({ $0 &- UInt8(ascii: "A") < 26 }) else {
            return .error("money: the currency must be a code like EUR, it is \(currency ?? "missing")")
        }
        let places = self.places[currency] ?? 2
        guard unit == "major" || unit == "minor" else {
            return .error("money: the third argument must be \"major\" (euros) or \"minor\" (cents)")
        }
        guard let number = Decimal(value) else {
            return .error("money: \(value.shown) is not a decimal number of at most \(self.digitLimit) digits")
        }
        guard let text = number.text(places: places, shift: unit == "minor" ? -places : 0) else {
            return .error("money: \(value.shown) has more decimal places than \(currency), which has \(places)")
        }
        return .text(text)
    }

    /// Returns a number as an integer: that of `2` and `2.00`.
    static func integer(_ value: HostValue) -> HostValue {
        guard let text = Decimal(value)?.text(places: 0, shift: 0), let integer = Int64(text) else {
            return .error("integer: \(value.shown) is not a whole number of 64 bits")
        }
        return .integer(integer)
    }

    /// A decimal number: `digits` times ten to the power of `exponent`.
    private struct Decimal {
        private var isNegative = false
        private var digits: [UInt8] = []
        private var exponent = 0

        /// - Returns: nil for what is not a number of JSON, or has too many digits.
        init?(_ value: HostValue) {
            let text: String
            switch value {
            case .integer(let number): text = String(number)
            case .text(let given): text = given
            case .null, .error: return nil
            }
            var rest = text.utf8[...]
            if rest.first == UInt8(ascii: "-") {
                self.isNegative = true
                rest = rest.dropFirst()
            }
            var isFraction = false
            var count = 0
            while let byte = rest.first {
                if byte == UInt8(ascii: "."), !isFraction, count > 0 {
                    isFraction = true
                } else if byte &- UInt8(ascii: "0") < 10 {
                    self.digits.append(byte)
                    count += 1
                    if isFraction { self.exponent -= 1 }
                } else {
                    break
                }
                rest = rest.dropFirst()
            }
            guard count > 0, text.utf8[rest.startIndex...].count == rest.count,
                text.utf8[..<rest.startIndex].last != UInt8(ascii: ".")
            else { return nil }
            if let mark = rest.first {
                guard mark | 0x20 == UInt8(ascii: "e"), let power = Int(Substring(rest.dropFirst())),
                    abs(power) <= MoneyAmount.digitLimit
                else { return nil }
                self.exponent += power
            }
            while self.digits.count > 1, self.digits.first == UInt8(ascii: "0") { self.digits.removeFirst() }
            guard self.digits.count <= MoneyAmount.digitLimit else { return nil }
        }

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
    }
}
