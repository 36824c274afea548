import FoundationEssentials
import Model

/// The meaning of a foreign value beyond its type: a logical type of Avro, or a schema that Kafka Connect or Debezium
/// names. Each has one form as JSON, whichever system wrote it.
///
/// Source: Apache Avro 1.12 specification, "Logical Types"; Kafka Connect, `org.apache.kafka.connect.data`; Debezium 3,
/// "Data types", "Temporal types"
enum LogicalType: Hashable, Sendable {
    /// A number in two's complement, divided by ten to the power of the scale.
    case decimal(scale: Int)
    /// Such a number with a scale of its own: as Avro and as Debezium write it.
    case bigDecimal, variableDecimal
    case uuid
    /// Months, days and milliseconds.
    case duration
    /// A day as its number since 1970, and as a text with a `Z` behind it.
    case date, isoDate
    /// A moment in so many parts of a second since 1970.
    case moment(parts: Int64)
    /// A local time, without a zone.
    case local(parts: Int64)
    /// A date or a time as an object with `year`, `month`, `day`.
    case structured

    /// The most digits behind the point, and the most zeros before it that a scale adds: connectors give 127 to a
    /// `NUMBER` of Oracle without a scale.
    static let scaleLimit = 128
    /// Zeros at the end are significant up to here.
    private static let placesLimit = 64
    private static let decimalBytes = 64

    /// - Parameters:
    ///   - name: that of a schema of Kafka Connect.
    ///   - scale: that of a decimal. A decimal without one has no value that is valid.
    init?(connect name: String?, scale: Int?) {
        switch name {
        case "org.apache.kafka.connect.data.Decimal"?: self = .decimal(scale: scale ?? .max)
        case "io.debezium.data.VariableScaleDecimal"?: self = .variableDecimal
        case "io.debezium.time.Date"?, "org.apache.kafka.connect.data.Date"?: self = .date
        case "io.debezium.time.IsoDate"?: self = .isoDate
        case "io.debezium.time.Timestamp"?, "org.apache.kafka.connect.data.Timestamp"?: self = .moment(parts: 1000)
        case "io.debezium.time.MicroTimestamp"?: self = .moment(parts: 1_000_000)
        case "io.debezium.time.NanoTimestamp"?: self = .moment(parts: 1_000_000_000)
        case "io.debezium.time.StructuredDate"?, "io.debezium.time.StructuredTimestamp"?,
            "io.debezium.time.StructuredZonedTimestamp"?:
            self = .structured
        default: return nil
        }
    }

    /// Returns a day or a moment as a text; the number itself of another meaning.
    ///
    /// A number outside of the years 0000 to 9999 is the first or the last day or moment in them: databases have such
    /// numbers for infinity.
    func json(of number: Int64) -> JSON {
        switch self {
        case .date:
            let days = min(max(number, -800_000), 3_000_000)
            return .string(String(RFC3339.format(epochSeconds: days * 86_400).prefix(10)))
        case .moment(let parts): return .string(Self.moment(number, parts))
        case .local(let parts): return .string(String(Self.moment(number, parts).dropLast()))
        case .decimal, .bigDecimal, .variableDecimal, .uuid, .duration, .isoDate, .structured: return .integer(number)
        }
    }

    /// Returns the digits of a decimal, a UUID's or a duration's text, or base64.
    ///
    /// - Returns: nil for a decimal without bytes, or with more than 64 of them or 128 places.
    func json(of bytes: [UInt8]) -> JSON? {
        switch self {
        case .decimal(let scale): return Self.digits(of: bytes, scale: scale).map { .string($0) }
        case .uuid where bytes.count == 16: return .string(Self.uuid(bytes))
        case .duration where bytes.count == 12: return .string(Self.duration(bytes))
        default: return .string(Data(bytes).base64EncodedString())
        }
    }

    /// Returns the text of an object that is one value; nil if it is none.
    func json(of object: JSONObject) -> JSON? {
        switch self {
        case .variableDecimal:
            guard let scale = object["scale"]?.integer, let text = object["value"]?.string,
                let data = Data(base64Encoded: text)
            else { return nil }
            return Self.digits(of: Array(data), scale: Int(scale)).map { .string($0) }
        case .structured: return Self.structured(object).map { .string($0) }
        default: return .object(object)
        }
    }

    // MARK: decimals

    /// Returns the digits of a number in two's complement, divided by ten to the power of `scale`.
    ///
    /// - Returns: nil for no bytes, more than 64 of them, or a scale that is not from -128 to 128.
    static func digits(of bytes: [UInt8], scale: Int) -> String? {
        // A fixed type has more bytes in front, all with the sign.
        var bytes = bytes
        var start = 0
        while start + 1 < bytes.count {
            let sign: UInt8 = bytes[start + 1] < 0x80 ? 0 : 0xFF
            guard bytes[start] == sign else { break }
            start += 1
        }
        bytes.removeFirst(start)
        guard (1...Self.decimalBytes).contains(bytes.count) else { return nil }
        let isNegative = bytes[0] >= 0x80
        if isNegative {
            var carry = true
            for index in bytes.indices.reversed() {
                bytes[index] = ~bytes[index]
                if carry {
                    let (sum, isOver) = bytes[index].addingReportingOverflow(1)
                    bytes[index] = sum
                    carry = isOver
                }
            }
        }
        var digits: [UInt8] = []
        while bytes.contains(where: { $0 != 0 }) {
            var rest = 0
            for index in bytes.indices {
                let value = rest << 8 | Int(bytes[index])
                bytes[index] = UInt8(value / 10)
                rest = value % 10
            }
            digits.append(UInt8(ascii: "0") + UInt8(rest))
        }
        return Self.placed(digits.reversed(), scale: scale, isNegative: isNegative)
    }

    /// Returns a JSON number without exponent: `1E+2` is `100`.
    ///
    /// - Returns: nil if that has more than 128 digits behind the point, or as many zeros more before it.
    static func plain(_ number: JSONNumber) -> String? {
        let text = number.text.utf8
        guard text.count <= 4 * Self.scaleLimit else { return nil }
        let exponent = text.firstIndex { $0 | 0x20 == UInt8(ascii: "e") }
        let parts = text[..<(exponent ?? text.endIndex)].split(separator: UInt8(ascii: "."))
        let fraction = parts.count > 1 ? Array(parts[1]) : []
        let whole = parts[0].filter { $0 != UInt8(ascii: "-") }
        var scale = fraction.count
        if let exponent {
            guard let power = Int(String(text[text.index(after: exponent)...]) ?? ""), (-999...999).contains(power)
            else { return nil }
            scale -= power
        }
        let digits = (whole + fraction).drop { $0 == UInt8(ascii: "0") }
        return Self.placed(Array(digits), scale: scale, isNegative: text.first == UInt8(ascii: "-"))
    }

    /// - Parameter digits: without zeros in front.
    private static func placed(_ digits: [UInt8], scale: Int, isNegative: Bool) -> String? {
        guard (-Self.scaleLimit...Self.scaleLimit).contains(scale) else { return nil }
        let zero = UInt8(ascii: "0")
        var (digits, scale) = (digits, scale)
        if scale > Self.placesLimit {
            while scale > 0, (digits.last ?? zero) == zero {
                if !digits.isEmpty { digits.removeLast() }
                scale -= 1
            }
        }
        if scale < 0, !digits.isEmpty { digits += Array(repeating: zero, count: -scale) }
        let places = max(scale, 0)
        if digits.count <= places { digits = Array(repeating: zero, count: places + 1 - digits.count) + digits }
        let whole = String(decoding: digits.dropLast(places), as: UTF8.self)
        let fraction = places > 0 ? ".\(String(decoding: digits.suffix(places), as: UTF8.self))" : ""
        return (isNegative ? "-" : "") + whole + fraction
    }

    // MARK: times

    /// Returns a moment with as many digits as the fraction needs, in threes.
    private static func moment(_ number: Int64, _ parts: Int64) -> String {
        let (quotient, remainder) = number.quotientAndRemainder(dividingBy: parts)
        // The least and the greatest number are infinity, also where their year has four digits.
        if number == .min || number == .max { return RFC3339.format(epochSeconds: number) }
        let seconds = remainder < 0 ? quotient - 1 : quotient
        let rest = remainder < 0 ? remainder + parts : remainder
        let text = RFC3339.format(epochSeconds: seconds)
        guard rest > 0, (-62_167_219_200...253_402_300_799).contains(seconds) else { return text }
        return "\(text.dropLast()).\(Self.fraction(rest, of: parts))Z"
    }

    /// - Parameter rest: above 0.
    private static func fraction(_ rest: Int64, of parts: Int64) -> String {
        var digits = String(String(rest + parts).dropFirst())
        while digits.hasSuffix("000") { digits.removeLast(3) }
        return digits
    }

    /// Returns a duration as in ISO 8601: `P1M2DT3.004S`.
    private static func duration(_ bytes: [UInt8]) -> String {
        func number(_ part: Int) -> Int64 {
            var number: Int64 = 0
            for index in (4 * part..<4 * part + 4).reversed() { number = number << 8 | Int64(bytes[index]) }
            return number
        }
        let (months, days, milliseconds) = (number(0), number(1), number(2))
        let date = (months > 0 ? "\(months)M" : "") + (days > 0 ? "\(days)D" : "")
        guard milliseconds > 0 || date.isEmpty else { return "P\(date)" }
        let rest = milliseconds % 1000
        let fraction = rest > 0 ? ".\(Self.fraction(rest, of: 1000))" : ""
        return "P\(date)T\(milliseconds / 1000)\(fraction)S"
    }

    private static func structured(_ object: JSONObject) -> String? {
        func number(_ name: String, _ range: ClosedRange<Int64>) -> Int64? {
            object[name]?.integer.flatMap { range.contains($0) ? $0 : nil }
        }
        switch object["specialValue"]?.string {
        case "POSITIVE_INFINITY"?: return RFC3339.format(epochSeconds: .max)
        case "NEGATIVE_INFINITY"?: return RFC3339.format(epochSeconds: .min)
        default: break
        }
        guard let year = number("year", 0...9999), let month = number("month", 1...12), let day = number("day", 1...31)
        else { return nil }
        func two(_ value: Int64) -> String { String(String(100 + value).dropFirst()) }
        let date = "\(String(String(10_000 + year).dropFirst()))-\(two(month))-\(two(day))"
        guard let hour = number("hour", 0...23) else { return object["hour"] == nil ? date : nil }
        guard let minute = number("minute", 0...59), let second = number("second", 0...59) else { return nil }
        let nanos = number("nanos", 1...999_999_999).map { "." + Self.fraction($0, of: 1_000_000_000) } ?? ""
        let offset = number("offsetSeconds", -86_340...86_340) ?? 0
        let sign = offset < 0 ? "-" : "+"
        let zone = offset == 0 ? "Z" : sign + two(abs(offset) / 3600) + ":" + two(abs(offset) / 60 % 60)
        return "\(date)T\(two(hour)):\(two(minute)):\(two(second))\(nanos)\(zone)"
    }

    static func uuid(_ bytes: [UInt8]) -> String {
        var text = ""
        for (index, byte) in bytes.enumerated() {
            if [4, 6, 8, 10].contains(index) { text += "-" }
            text += String(String(Int(byte) + 256, radix: 16).dropFirst())
        }
        return text
    }
}
