/// The reason why a text cannot be an identifier, in a sentence for the person who sent it.
public struct IdentifierError: Error, Hashable, Sendable, CustomStringConvertible {
    public let description: String
}

/// The order type, as in the developer portal and the certificate; also the topic of push notifications.
///
/// Source: Wallet Orders §1.1; `order.schema.json`, `orderTypeIdentifier`
public struct OrderTypeIdentifier: Hashable, Sendable, CustomStringConvertible {
    public let rawValue: String
    public var description: String { self.rawValue }

    /// - Parameter text: reverse DNS, at least two labels of ASCII letters, digits and hyphens, at most 255 bytes.
    public init(_ text: String) throws(IdentifierError) {
        var dots = 0
        // True at the start and after a dot: a dot or the end of the text would make an empty label there.
        var isLabelEmpty = true
        var isValid = text.utf8.count <= identifierLengthLimit
        let bytes = text.utf8.span
        for index in bytes.indices {
            if bytes[index] == UInt8(ascii: ".") {
                dots += 1
                isValid = isValid && !isLabelEmpty
                isLabelEmpty = true
            } else {
                isLabelEmpty = false
                isValid = isValid && isLetterDigitOrHyphen(bytes[index])
            }
        }
        guard isValid, dots >= 1, !isLabelEmpty else {
            throw IdentifierError(
                description:
                    "\"\(clipped(text))\" is not an order type identifier, which looks like order.com.example.shop")
        }
        self.rawValue = text
    }
}

/// The identifier of an order within its type. Never shown to people.
///
/// Source: Wallet Orders §1.1; `order.schema.json`, `orderIdentifier`
public struct OrderIdentifier: Hashable, Sendable, CustomStringConvertible {
    public let rawValue: String
    public var description: String { self.rawValue }

    /// - Parameter text: 1 to 255 of the characters that need no escaping in a URL: `A-Z a-z 0-9 . _ ~ -`.
    public init(_ text: String) throws(IdentifierError) {
        guard !text.isEmpty, text.utf8.count <= identifierLengthLimit, text.utf8.span.allSatisfy(isUnreserved) else {
            throw IdentifierError(
                description:
                    "\"\(clipped(text))\" is not an order identifier: 1 to 255 of A-Z a-z 0-9 . _ ~ - are allowed")
        }
        self.rawValue = text
    }
}

/// The identifier of an order everywhere: the key of Kafka records and the hash tag of Redis keys.
public struct OrderKey: Hashable, Sendable, CustomStringConvertible {
    public let orderType: OrderTypeIdentifier
    public let order: OrderIdentifier

    public init(orderType: OrderTypeIdentifier, order: OrderIdentifier) {
        self.orderType = orderType
        self.order = order
    }

    /// - Parameter text: `<orderTypeIdentifier>/<orderIdentifier>`.
    public init(_ text: String) throws(IdentifierError) {
        guard let slash = text.utf8.firstIndex(of: UInt8(ascii: "/")) else {
            throw IdentifierError(
                description: "\"\(clipped(text))\" is not an order key, which looks like order.com.example.shop/1234")
        }
        self.orderType = try OrderTypeIdentifier(String(text[..<slash]))
        self.order = try OrderIdentifier(String(text[text.utf8.index(after: slash)...]))
    }

    /// `<orderTypeIdentifier>/<orderIdentifier>`
    public var description: String { "\(self.orderType.rawValue)/\(self.order.rawValue)" }
}

/// The identifier of a device, which also authenticates it for the list of changed orders. A secret: never logged.
///
/// Source: Wallet Orders §1.1
public struct DeviceIdentifier: Hashable, Sendable, CustomStringConvertible {
    public let rawValue: String
    public var description: String { "(device)" }

    /// - Parameter text: opaque; 1 to 255 bytes without control characters.
    public init(_ text: String) throws(IdentifierError) {
        guard !text.isEmpty, text.utf8.count <= identifierLengthLimit,
            text.utf8.span.allSatisfy({ $0 >= 0x20 && $0 != 0x7F })
        else {
            throw IdentifierError(
                description: "a device identifier has 1 to 255 bytes and no control characters")
        }
        self.rawValue = text
    }
}

/// The address of a device at APNs. A secret: never logged.
///
/// Source: Wallet Orders §1.1: an opaque hexadecimal string of no promised length
public struct PushToken: Hashable, Sendable, CustomStringConvertible {
    public let rawValue: String
    public var description: String { "(push token)" }

    /// - Parameter text: 1 to 255 hexadecimal digits.
    public init(_ text: String) throws(IdentifierError) {
        guard !text.isEmpty, text.utf8.count <= identifierLengthLimit, text.utf8.span.allSatisfy(isHexadecimal) else {
            throw IdentifierError(description: "a push token has 1 to 255 hexadecimal digits")
        }
        self.rawValue = text
    }
}

/// The token with which a device fetches an order. A secret: never logged.
///
/// Source: Wallet Orders §1.1
public struct AuthenticationToken: Hashable, Sendable, CustomStringConvertible {
    public let rawValue: String
    public var description: String { "(authentication token)" }

    /// - Parameter text: 16 to 255 printable ASCII characters without spaces.
    public init(_ text: String) throws(IdentifierError) {
        guard (16...identifierLengthLimit).contains(text.utf8.count),
            text.utf8.span.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw IdentifierError(
                description: "an authentication token has 16 to 255 printable ASCII characters without spaces")
        }
        self.rawValue = text
    }

    /// - Parameter text: hexadecimal digits that we computed: 32, or 48 with a salt of 16 in front.
    public init(derived text: String) {
        precondition([32, 48].contains(text.utf8.count) && text.utf8.span.allSatisfy(isHexadecimal))
        self.rawValue = text
    }

    /// Returns the salt of a text of the form of a renewed token; nil for any other.
    public static func salt(ofRenewed text: String) -> String? {
        guard text.utf8.count == 48, text.utf8.span.allSatisfy(isHexadecimal) else { return nil }
        return String(decoding: text.utf8.prefix(16), as: UTF8.self)
    }
}

/// The identifier of a device's registration for an order: the key of `waybill.registrations`.
public struct RegistrationKey: Hashable, Sendable {
    public let device: DeviceIdentifier
    public let order: OrderKey

    public init(device: DeviceIdentifier, order: OrderKey) {
        self.device = device
        self.order = order
    }

    /// - Parameter text: `<device>/<type>/<id>`; the device may itself contain slashes, type and id cannot.
    public init(_ text: String) throws(IdentifierError) {
        let slash = UInt8(ascii: "/")
        guard let last = text.utf8.lastIndex(of: slash), let middle = text.utf8[..<last].lastIndex(of: slash) else {
            throw IdentifierError(description: "a registration key looks like <device>/<order type>/<order>")
        }
        self.device = try DeviceIdentifier(String(text[..<middle]))
        self.order = try OrderKey(String(text[text.utf8.index(after: middle)...]))
    }

    /// `<device>/<type>/<id>`, with the device in plain text.
    public var text: String { "\(self.device.rawValue)/\(self.order)" }
}

/// The longest identifier that is accepted from outside, in bytes.
private let identifierLengthLimit = 255

extension Span<UInt8> {
    /// Returns true if each byte passes, at a fraction of what the iterator of a UTF-8 view costs.
    fileprivate func allSatisfy(_ passes: (UInt8) -> Bool) -> Bool {
        for index in self.indices where !passes(self[index]) { return false }
        return true
    }
}

private func isLetterDigitOrHyphen(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"):
        true
    default: false
    }
}

/// Source: RFC 3986 §2.3
private func isUnreserved(_ byte: UInt8) -> Bool {
    isLetterDigitOrHyphen(byte) || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "~")
}

private func isHexadecimal(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
        UInt8(ascii: "A")...UInt8(ascii: "F"):
        true
    default: false
    }
}
