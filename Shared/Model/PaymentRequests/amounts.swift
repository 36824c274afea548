/// Returns true for an amount of a payment request: up to nine digits, and up to four after a decimal point.
///
/// Currencies have zero, two or three decimal places; browsers do not check which.
func isAmount(_ text: String, isSigned: Bool) -> Bool {
    let digits = isSigned && text.utf8.first == UInt8(ascii: "-") ? text.utf8.dropFirst() : text.utf8[...]
    let parts = digits.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    return (1...2).contains(parts.count) && (1...9).contains(parts[0].count)
        && parts.allSatisfy { $0.allSatisfy { $0 &- UInt8(ascii: "0") < 10 } }
        && (parts.count == 1 || (1...4).contains(parts[1].count))
}

/// Returns true for an amount from 0 to 100,000,000.
///
/// Source: Apple Pay on the Web, `ApplePayLineItem`: a total may not be larger
func isTotal(_ text: String) -> Bool {
    guard isAmount(text, isSigned: false) else { return false }
    let parts = text.split(separator: ".")
    return parts[0].utf8.count <= 8
        || (parts[0] == "100000000" && (parts.count == 1 || parts[1].allSatisfy { $0 == "0" }))
}

/// Returns true for a name in the form of those that Apple gives to networks.
///
/// Source: Apple Pay on the Web, "Supporting payment networks"
func isNetworkName(_ text: Span<UInt8>) -> Bool {
    guard (2...64).contains(text.count), text[0] &- UInt8(ascii: "a") < 26 else { return false }
    for index in 1..<text.count {
        let byte = text[index]
        guard (byte | 0x20) &- UInt8(ascii: "a") < 26 || byte &- UInt8(ascii: "0") < 10 else { return false }
    }
    return true
}

/// Returns true for padded base64. Source: RFC 4648 §4
func isBase64(_ text: Span<UInt8>) -> Bool {
    guard text.count % 4 == 0 else { return false }
    var end = text.count
    while end > 0, text.count - end < 2, text[end - 1] == UInt8(ascii: "=") { end -= 1 }
    for index in 0..<end {
        let byte = text[index]
        let isLetter = (byte | 0x20) &- UInt8(ascii: "a") < 26
        guard isLetter || byte &- UInt8(ascii: "0") < 10 || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "/")
        else { return false }
    }
    return true
}
