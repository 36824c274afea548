/// A moment as CMS writes it.
enum SigningTime {
    /// Returns a UTCTime for the years 1950 to 2049, otherwise a GeneralizedTime; always with seconds and zone Z.
    ///
    /// Source: RFC 5652 §11.3
    static func element(epochSeconds: Int64) -> [UInt8] {
        // Times outside the years 0 to 9999 cannot be written; a clock never returns one.
        let seconds = min(max(epochSeconds, -62_167_219_200), 253_402_300_799)
        let day = seconds >= 0 ? seconds / 86_400 : (seconds - 86_399) / 86_400
        let second = seconds - day * 86_400
        let (year, month, dayOfMonth) = Self.civil(day: day)
        let short = (1950..<2050).contains(year)
        var digits: [UInt8] = []
        digits.reserveCapacity(15)
        if !short { Self.append(year / 100, to: &digits) }
        for part in [year % 100, month, dayOfMonth, second / 3600, second / 60 % 60, second % 60] {
            Self.append(part, to: &digits)
        }
        digits.append(UInt8(ascii: "Z"))
        return DER.element(short ? DER.utcTime : DER.generalizedTime, digits)
    }

    /// Returns year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
    ///
    /// Counts in eras of 400 years whose years begin in March, so that the leap day is their last.
    private static func civil(day: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let shifted = day + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * marchMonth + 2) / 5 + 1)
    }

    /// Returns the moment that `element` wrote; nil for any other text.
    static func epochSeconds(_ tag: UInt8, _ content: ArraySlice<UInt8>) -> Int64? {
        let isShort = tag == DER.utcTime
        guard isShort || tag == DER.generalizedTime, content.count == (isShort ? 13 : 15),
            content.last == UInt8(ascii: "Z"), content.dropLast().allSatisfy({ (0x30...0x39).contains($0) })
        else { return nil }
        var pairs: [Int64] = []
        var digits = content.dropLast()
        while let tens = digits.popFirst(), let ones = digits.popFirst() {
            pairs.append(Int64(tens - 0x30) * 10 + Int64(ones - 0x30))
        }
        if isShort { pairs.insert(pairs[0] < 50 ? 20 : 19, at: 0) }
        // Counted in years that begin in March, as in `civil`.
        let year = pairs[0] * 100 + pairs[1] - (pairs[2] <= 2 ? 1 : 0)
        let dayOfYear = (153 * (pairs[2] + (pairs[2] > 2 ? -3 : 9)) + 2) / 5 + pairs[3] - 1
        let era = (year >= 0 ? year : year - 399) / 400
        let yearOfEra = year - era * 400
        let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
        let seconds = ((days * 24 + pairs[4]) * 60 + pairs[5]) * 60 + pairs[6]
        // A month or an hour that does not exist would be written differently.
        return Self.element(epochSeconds: seconds).dropFirst(2).elementsEqual(content) ? seconds : nil
    }

    private static func append(_ twoDigits: Int64, to digits: inout [UInt8]) {
        digits.append(UInt8(truncatingIfNeeded: 0x30 + twoDigits / 10 % 10))
        digits.append(UInt8(truncatingIfNeeded: 0x30 + twoDigits % 10))
    }
}
