/// The required format of a string.
///
/// Source: `order.schema.json`, `$defs`
enum TextFormat: Sendable {
    case any
    /// Not empty.
    case filled
    case dateTime
    case duration
    case url
    case httpsURL
    case email
    /// A file name without scale, or an `https` URL where those are allowed.
    case image
    /// A file name, or an `https` URL where those are allowed.
    case file
    /// A file name of a kind that Wallet prints, or an `https` URL where those are allowed.
    case label
    case decimal
    case currency
    case country
    case orderTypeIdentifier
    case orderIdentifier
    case token
    case base64
    /// A code that browsers know.
    case knownCountry, knownCurrency
    /// The form of a payment network's name, so that networks that Apple adds are accepted.
    case network
    /// A merchant category code: four digits. Source: ISO 18245
    case categoryCode
    /// The name of a time zone in the IANA database.
    case timeZone
    /// An amount in a payment request: signed; not below zero; from 0 to 100,000,000.
    case signedAmount, price, totalAmount

    func accepts(_ text: String, files: OrderValidator.Files) -> Bool {
        switch self {
        case .any: true
        case .filled: !text.isEmpty
        case .dateTime: RFC3339.instant(text) != nil
        case .duration: isDuration(text.utf8.span)
        case .url: isURL(text.utf8.span)
        case .httpsURL: text.hasPrefix("https://") && isURL(text.utf8.span)
        case .email: isEmailAddress(text.utf8.span)
        case .image: isImageName(text) || files.areLinked(by: text)
        case .file:
            files == .names ? isFileName(text.utf8.span) : isPlainName(text) || files.areLinked(by: text)
        case .label:
            isFileName(text.utf8.span) && isLabel(text) && (files == .names || isPlainName(text))
                || files.areLinked(by: text)
        case .decimal: isDecimal(text.utf8.span)
        case .currency: isCapitals(text.utf8.span, count: 3)
        case .country: isCapitals(text.utf8.span, count: 2)
        case .orderTypeIdentifier: (try? OrderTypeIdentifier(text)) != nil
        case .orderIdentifier: (try? OrderIdentifier(text)) != nil
        case .token: (try? AuthenticationToken(text)) != nil
        case .base64: isBase64(text.utf8.span)
        case .knownCountry: ISOCodes.countries.contains(text)
        case .knownCurrency: ISOCodes.currencies.contains(text)
        case .network: isNetworkName(text.utf8.span)
        case .categoryCode: text.utf8.count == 4 && text.utf8.allSatisfy { $0 &- UInt8(ascii: "0") < 10 }
        case .timeZone: TimeZones.names.contains(text)
        case .signedAmount: isAmount(text, isSigned: true)
        case .price: isAmount(text, isSigned: false)
        case .totalAmount: isTotal(text)
        }
    }

    /// Returns the text that a wrong one certainly means; nil if that is not certain.
    func mended(_ text: String, files: OrderValidator.Files) -> String? {
        switch self {
        case .url, .httpsURL, .image, .file, .label:
            WebLink.mended(text).flatMap { $0 != text && self.accepts($0, files: files) ? $0 : nil }
        default: nil
        }
    }

    /// Returns the expected format in words, for messages.
    func expectation(files: OrderValidator.Files) -> String {
        switch self {
        case .any: "a string"
        case .filled: "a string that is not empty"
        case .dateTime: "a date-time with zone like 2025-03-05T16:02:11Z"
        case .duration: "an ISO 8601 duration like PT2H"
        case .url: "an absolute URL with reserved characters percent-encoded"
        case .httpsURL: "an https URL"
        case .email: "an e-mail address"
        case .image:
            "the name of an image file without @2x or @3x\(files.alternative)"
        case .file: "a relative file name without .. and \\\(files.alternative)"
        case .label: "the name of a PDF, JPG or PNG file\(files.alternative)"
        case .decimal: "a decimal number in a string like \"19.99\""
        case .currency: "an ISO 4217 code like USD"
        case .country: "an ISO 3166-1 code of two capitals like US"
        case .orderTypeIdentifier: "an order type identifier like order.com.example.shop"
        case .orderIdentifier: "1 to 255 of A-Z a-z 0-9 . _ ~ -"
        case .token: "16 to 255 printable ASCII characters without spaces"
        case .base64: "base 64 with its padding"
        case .knownCountry: "an ISO 3166-1 code of a country like US"
        case .knownCurrency: "an ISO 4217 code of a currency like USD"
        case .network: "the name of a network like masterCard: 2 to 64 letters and digits, a small one first"
        case .categoryCode: "a merchant category code of four digits in a string like \"5411\""
        case .timeZone: "the name of a time zone in the IANA database like Europe/Berlin"
        case .signedAmount: "an amount in a string like \"-19.99\", with up to four decimals"
        case .price: "an amount in a string like \"19.99\", not below zero"
        case .totalAmount: "an amount in a string like \"19.99\", from 0 to 100000000"
        }
    }

    /// True if messages may repeat a wrong value. Personal data and secrets are not repeated.
    var isShown: Bool {
        switch self {
        case .any, .filled, .url, .httpsURL, .email, .token, .base64: false
        case .dateTime, .duration, .image, .file, .label, .decimal, .currency, .country, .orderTypeIdentifier,
            .orderIdentifier, .network, .knownCountry, .knownCurrency, .categoryCode, .timeZone, .signedAmount, .price,
            .totalAmount:
            true
        }
    }
}

/// Returns true for `-?digits[.digits]`.
func isDecimal(_ bytes: Span<UInt8>) -> Bool {
    var position = bytes.count > 0 && bytes[0] == UInt8(ascii: "-") ? 1 : 0
    guard skipDigits(bytes, &position) else { return false }
    if position == bytes.count { return true }
    guard bytes[position] == UInt8(ascii: ".") else { return false }
    position += 1
    return skipDigits(bytes, &position) && position == bytes.count
}

/// Returns true for exactly `count` letters of `A-Z`.
func isCapitals(_ bytes: Span<UInt8>, count: Int) -> Bool {
    guard bytes.count == count else { return false }
    for index in bytes.indices where !(UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(bytes[index]) { return false }
    return true
}

/// Returns true for `P[nY][nM][nW][nD][T[nH][nM][n[.n]S]]`, with at least one part, and at least one after `T`.
///
/// Source: ISO 8601-1; `order.schema.json`, `duration`
func isDuration(_ bytes: Span<UInt8>) -> Bool {
    guard bytes.count >= 3, bytes[0] == UInt8(ascii: "P") else { return false }
    var position = 1
    if bytes[position] != UInt8(ascii: "T") {
        guard skipDurationParts(bytes, &position, "YMWD") else { return false }
        if position == bytes.count { return true }
    }
    guard bytes[position] == UInt8(ascii: "T") else { return false }
    position += 1
    return skipDurationParts(bytes, &position, "HMS") && position == bytes.count
}

/// Skips numbers with the given units, each at most once and in this order.
///
/// - Returns: whether there was at least one.
private func skipDurationParts(_ bytes: Span<UInt8>, _ position: inout Int, _ units: StaticString) -> Bool {
    let start = position
    var remaining = Substring(units.description).utf8
    while position < bytes.count, bytes[position] != UInt8(ascii: "T") {
        guard skipDigits(bytes, &position), position < bytes.count else { return false }
        var hasFraction = false
        if bytes[position] == UInt8(ascii: ".") {
            position += 1
            guard skipDigits(bytes, &position), position < bytes.count else { return false }
            hasFraction = true
        }
        let unit = bytes[position]
        guard let index = remaining.firstIndex(of: unit), !hasFraction || unit == UInt8(ascii: "S") else {
            return false
        }
        remaining = remaining[remaining.index(after: index)...]
        position += 1
    }
    return position > start
}

private func skipDigits(_ bytes: Span<UInt8>, _ position: inout Int) -> Bool {
    let start = position
    while position < bytes.count, bytes[position] &- UInt8(ascii: "0") < 10 { position += 1 }
    return position > start
}

/// Returns true for an absolute URL: a scheme, then only characters that a URL may have, and two digits after a `%`.
///
/// `http` and `https` need a host. Source: RFC 3986 §2, §3; RFC 9110 §4.2
func isURL(_ bytes: Span<UInt8>) -> Bool {
    var colon = 0
    while colon < bytes.count, bytes[colon] != UInt8(ascii: ":") {
        let byte = bytes[colon]
        let isLetter = (byte | 0x20) &- UInt8(ascii: "a") < 26
        let isOther =
            byte &- UInt8(ascii: "0") < 10 || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "-")
            || byte == UInt8(ascii: ".")
        guard isLetter || (colon > 0 && isOther) else { return false }
        colon += 1
    }
    guard colon > 0, colon + 1 < bytes.count else { return false }
    var index = colon + 1
    while index < bytes.count {
        if bytes[index] == UInt8(ascii: "%") {
            guard isEscape(bytes, index) else { return false }
            index += 2
        } else if !isURLCharacter(bytes[index]) {
            return false
        }
        index += 1
    }
    return !isWeb(bytes, colon) || hasHost(bytes, colon)
}

/// Returns true if the scheme is `http` or `https`.
private func isWeb(_ bytes: Span<UInt8>, _ colon: Int) -> Bool {
    guard colon == 4 || colon == 5 else { return false }
    return bytes[0] | 0x20 == UInt8(ascii: "h") && bytes[1] | 0x20 == UInt8(ascii: "t")
        && bytes[2] | 0x20 == UInt8(ascii: "t") && bytes[3] | 0x20 == UInt8(ascii: "p")
        && (colon == 4 || bytes[4] | 0x20 == UInt8(ascii: "s"))
}

private func hasHost(_ bytes: Span<UInt8>, _ colon: Int) -> Bool {
    guard colon + 3 < bytes.count, bytes[colon + 1] == UInt8(ascii: "/"), bytes[colon + 2] == UInt8(ascii: "/") else {
        return false
    }
    switch bytes[colon + 3] {
    case UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "#"), UInt8(ascii: ":"), UInt8(ascii: "@"): return false
    default: return true
    }
}

/// Returns true if the `%` here has its two digits. Source: RFC 3986 §2.1
func isEscape(_ bytes: Span<UInt8>, _ index: Int) -> Bool {
    index + 2 < bytes.count && isHexDigit(bytes[index + 1]) && isHexDigit(bytes[index + 2])
}

/// Source: RFC 3986 §2.2, §2.3
func isURLCharacter(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "@")...UInt8(ascii: "Z"),
        UInt8(ascii: "&")...UInt8(ascii: ";"),
        UInt8(ascii: "!"), UInt8(ascii: "#"), UInt8(ascii: "$"), UInt8(ascii: "="), UInt8(ascii: "?"),
        UInt8(ascii: "["), UInt8(ascii: "]"), UInt8(ascii: "_"), UInt8(ascii: "~"):
        true
    default: false
    }
}

private func isHexDigit(_ byte: UInt8) -> Bool {
    byte &- UInt8(ascii: "0") < 10 || (byte | 0x20) &- UInt8(ascii: "a") < 6
}

/// Returns true for text around one `@`, without spaces and control characters: only the mail server knows more.
///
/// Source: RFC 5321 §4.1.2 with §4.5.3.1: 64 bytes before the `@`, 255 after it. Quoted local parts are refused.
func isEmailAddress(_ bytes: Span<UInt8>) -> Bool {
    var at: Int?
    for index in bytes.indices {
        guard bytes[index] > 0x20, bytes[index] != 0x7F else { return false }
        if bytes[index] == UInt8(ascii: "@") {
            guard at == nil else { return false }
            at = index
        }
    }
    guard let at else { return false }
    return (1...64).contains(at) && (1...255).contains(bytes.count - at - 1)
}

/// Returns true for a relative path without `..` segments and backslashes.
///
/// Source: `order.schema.json`, `fileName`
func isFileName(_ bytes: Span<UInt8>) -> Bool {
    guard bytes.count > 0, bytes[0] != UInt8(ascii: "/") else { return false }
    var segment = 0
    for index in 0...bytes.count {
        guard index == bytes.count || bytes[index] == UInt8(ascii: "/") else {
            if bytes[index] == UInt8(ascii: "\\") { return false }
            continue
        }
        if index - segment == 2, bytes[segment] == UInt8(ascii: "."), bytes[segment + 1] == UInt8(ascii: ".") {
            return false
        }
        segment = index + 1
    }
    return true
}

/// Returns true for a file name that is not a URL and ends in neither `@2x` nor `@3x`, with or without an extension.
///
/// Source: `order.schema.json`, `imageName`; Wallet Orders §2.6
func isImageName(_ text: String) -> Bool {
    let bytes = text.utf8.span
    guard isFileName(bytes), !hasScheme(bytes) else { return false }
    var end = bytes.count
    var letters = end
    while letters > 0, (bytes[letters - 1] | 0x20) &- UInt8(ascii: "a") < 26 { letters -= 1 }
    if letters < end, letters > 0, bytes[letters - 1] == UInt8(ascii: ".") { end = letters - 1 }
    return !endsInScale(bytes, end) && !endsInScale(bytes, bytes.count)
}

private func endsInScale(_ bytes: Span<UInt8>, _ end: Int) -> Bool {
    guard end >= 3, bytes[end - 1] == UInt8(ascii: "x"), bytes[end - 3] == UInt8(ascii: "@") else { return false }
    return bytes[end - 2] == UInt8(ascii: "2") || bytes[end - 2] == UInt8(ascii: "3")
}

/// Returns true for a file name that is not a URL.
private func isPlainName(_ text: String) -> Bool { isFileName(text.utf8.span) && !hasScheme(text.utf8.span) }

/// Returns true for text that begins with `scheme://`.
private func hasScheme(_ bytes: Span<UInt8>) -> Bool {
    guard bytes.count >= 4, (bytes[0] | 0x20) &- UInt8(ascii: "a") < 26 else { return false }
    for index in 1..<bytes.count - 2 {
        let byte = bytes[index]
        if byte == UInt8(ascii: ":") {
            return bytes[index + 1] == UInt8(ascii: "/") && bytes[index + 2] == UInt8(ascii: "/")
        }
        let isLetterOrDigit = (byte | 0x20) &- UInt8(ascii: "a") < 26 || byte &- UInt8(ascii: "0") < 10
        guard isLetterOrDigit || [UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: ".")].contains(byte) else {
            return false
        }
    }
    return false
}

/// Source: Wallet Orders §3.14: PDF, JPG or PNG
func isLabel(_ text: String) -> Bool {
    let end = text.suffix(5).lowercased()
    return end.hasSuffix(".pdf") || end.hasSuffix(".jpg") || end.hasSuffix(".jpeg") || end.hasSuffix(".png")
}

extension OrderValidator.Files {
    /// Returns true for an `https` URL, if those are allowed.
    fileprivate func areLinked(by text: String) -> Bool {
        self == .namesAndURLs && text.hasPrefix("https://") && isURL(text.utf8.span)
    }

    /// The end of the sentence that says what is expected.
    fileprivate var alternative: String { self == .names ? "" : ", or an https URL" }
}
