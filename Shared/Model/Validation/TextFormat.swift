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
    case file
    /// A file name of a kind that Wallet prints.
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
    /// An amount in a payment request: signed; not below zero; from 0 to 100,000,000.
    case signedAmount, price, totalAmount

    func accepts(_ text: String, images: OrderValidator.Images) -> Bool {
        switch self {
        case .any: true
        case .filled: !text.isEmpty
        case .dateTime: RFC3339.instant(text) != nil
        case .duration: isDuration(text.utf8.span)
        case .url: isURL(text.utf8.span)
        case .httpsURL: text.hasPrefix("https://") && isURL(text.utf8.span)
        case .email: isEmailAddress(text.utf8.span)
        case .image:
            isImageName(text) || (images == .filesAndURLs && text.hasPrefix("https://") && isURL(text.utf8.span))
        case .file: isFileName(text.utf8.span)
        case .label: isFileName(text.utf8.span) && isLabel(text)
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
        case .signedAmount: isAmount(text, isSigned: true)
        case .price: isAmount(text, isSigned: false)
        case .totalAmount: isTotal(text)
        }
    }

    /// Returns the expected format in words, for messages.
    func expectation(images: OrderValidator.Images) -> String {
        switch self {
        case .any: "a string"
        case .filled: "a string that is not empty"
        case .dateTime: "a date-time with zone like 2025-03-05T16:02:11Z"
        case .duration: "an ISO 8601 duration like PT2H"
        case .url: "an absolute URL with reserved characters percent-encoded"
        case .httpsURL: "an https URL"
        case .email: "an e-mail address"
        case .image:
            images == .files
                ? "the name of an image file without @2x or @3x"
                : "the name of an image file without @2x or @3x, or an https URL"
        case .file: "a relative file name without .. and \\"
        case .label: "the name of a PDF, JPG or PNG file"
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
            .orderIdentifier, .network, .knownCountry, .knownCurrency, .signedAmount, .price, .totalAmount:
            true
        }
    }
}
