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

    /// Returns an amount in the form of an order: `149.40`, with the decimal places of its currency.
    ///
    /// - Parameters:
    ///   - unit: `major` for euros; `minor` for cents, which are those of `minorUnits`; or the name of a provider.
    ///   - marks: as for `DecimalNumber.Marks`.
    static func text(
        of value: HostValue, currency: String?, unit: String?, marks: HostValue, minorUnits: MinorUnits
    ) -> HostValue {
        guard let currency, currency.utf8.count == 3, currency.utf8.allSatisfy({ $0 &- UInt8(ascii: "A") < 26 }) else {
            return .error("money: the currency must be a code like EUR, it is \(currency ?? "missing")")
        }
        let places = self.places[currency] ?? 2
        let shift: Int
        switch unit {
        case "major": shift = 0
        case "minor": shift = -(minorUnits.differences[currency] ?? places)
        default:
            guard let provider = unit.flatMap({ MinorUnits(rawValue: $0) }), provider != .iso4217 else {
                return .error(
                    "money: the third argument must be \"major\" (euros), \"minor\" (cents), or whose cents they are: "
                        + "\"adyen\" or \"stripe\"")
            }
            shift = -(provider.differences[currency] ?? places)
        }
        guard let marks = DecimalNumber.Marks(marks) else { return .error("money: \(DecimalNumber.Marks.rule)") }
        guard let number = DecimalNumber(value, marks) else {
            return .error("money: \(DecimalNumber.refusal(value, marks))")
        }
        guard let text = number.text(places: places, shift: shift) else {
            return .error("money: \(value.shown) has more decimal places than \(currency), which has \(places)")
        }
        return .text(text)
    }
}

/// The minor units of a provider of payments.
public enum MinorUnits: String, CaseIterable, Sendable {
    case iso4217, adyen, stripe

    /// The decimal places of currencies that have others than by ISO 4217.
    ///
    /// Sources: Adyen, "Currency codes and minor units"; Stripe, "Supported currencies", zero-decimal currencies and
    /// special cases. Forint and Taiwan dollars of Stripe have two places also where payouts must be whole
    var differences: [String: Int] {
        switch self {
        case .iso4217: [:]
        case .adyen: ["CLP": 2, "CVE": 0, "IDR": 0, "ISK": 2]
        case .stripe: ["ISK": 2, "MGA": 0, "UGX": 2]
        }
    }
}
